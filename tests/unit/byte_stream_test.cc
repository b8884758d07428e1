#include "data/examples/byte_stream.h"

#include <gtest/gtest.h>

#include <random>

#include "support/expect_error.h"
#include "support/gzip.h"
#include "support/temp_folder.h"

namespace tessera::host {
namespace {

using testing::expect_error;
using testing::gzip;
using testing::TempFolder;

// All of it, `piece` bytes at a time.
std::string content_of(const std::string& path, std::size_t piece = 1000) {
  ByteStream stream(path);
  std::string content, part(piece, '\0');
  while (const std::size_t num_read = stream.read(std::as_writable_bytes(std::span(part))))
    content += part.substr(0, num_read);
  EXPECT_EQ(stream.position(), content.size());
  return content;
}

// Bytes that hardly compress, more than one buffer of them.
std::string noise(std::size_t num_bytes) {
  std::mt19937 generator(7);
  std::string bytes(num_bytes, '\0');
  for (char& c : bytes)
    c = static_cast<char>(generator());
  return bytes;
}

TEST(ByteStream, ReadsPlainAndCompressedFilesByTheirContent) {
  const TempFolder folder;
  const std::string long_content = noise(700'000);
  for (const std::string& content : {std::string("a"), std::string("some text\n"), long_content}) {
    EXPECT_EQ(content_of(folder.write("plain.gz", content)), content) << "a name does not make a file compressed";
    for (const std::size_t piece : {1000, 1 << 20})
      EXPECT_EQ(content_of(folder.write("compressed", gzip(content)), piece), content);
  }
  EXPECT_EQ(content_of(folder.write("empty", "")), "");
  EXPECT_EQ(content_of(folder.write("empty-inside", gzip(""))), "");
}

TEST(ByteStream, MembersOfAGzipFileFollowOneAnother) {
  const TempFolder folder;
  const std::string path = folder.write("members.gz", gzip("one ") + gzip("") + gzip("two"));
  EXPECT_TRUE(ByteStream(path).is_compressed());
  EXPECT_EQ(content_of(path), "one two");
  EXPECT_EQ(content_of(path, 1), "one two");
}

TEST(ByteStream, RefusesGzipThatIsCutAtAnyByte) {
  const TempFolder folder;
  const std::string whole = gzip(noise(300));
  for (std::size_t length = 2; length < whole.size(); ++length) {
    const std::string path = folder.write("cut.gz", whole.substr(0, length));
    expect_error([&] { content_of(path); }, {path + ", byte " + std::to_string(length), "was the file cut?"});
  }
}

TEST(ByteStream, DamagedBytesOfGzipNeverPassForContent) {
  const TempFolder folder;
  const std::string content = "0,1,2\n3,4,5\n", whole = gzip(content);
  int num_refused = 0;
  for (std::size_t i = 2; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    const std::string path = folder.write("damaged.gz", damaged);
    try {
      EXPECT_EQ(content_of(path), content) << "byte " << i;
    } catch (const Error& error) {
      ++num_refused;
      EXPECT_NE(std::string(error.what()).find(path + ", byte "), std::string::npos) << error.what();
    }
  }
  EXPECT_GE(num_refused, static_cast<int>(whole.size()) - 10) << "but for the header's time and system";
}

TEST(ByteStream, RefusesWhatFollowsGzip) {
  const TempFolder folder;
  const std::string path = folder.write("more.gz", gzip("text") + "more");
  expect_error([&] { content_of(path); }, {path, "the gzip data is damaged"});
}

}  // namespace
}  // namespace tessera::host
