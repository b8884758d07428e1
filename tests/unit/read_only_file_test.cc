#include "base/read_only_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace tessera::testing {
using namespace host;
namespace {

std::string read(const ReadOnlyFile& file, uint64_t offset, std::size_t num_bytes) {
  std::string bytes(num_bytes, '?');
  file.read(offset, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

TEST(ReadOnlyFile, ReadsTheSameInOneCallOfTheSystemAndInMany) {
  const TempFolder folder;
  std::string bytes;
  for (int i = 0; i < 1000; ++i)
    bytes += std::to_string(i);
  const std::string path = folder.write("file", bytes);
  for (const std::size_t max_bytes_per_call : {ReadOnlyFile::kMaxBytesPerCall, std::size_t{7}, std::size_t{1}}) {
    const ReadOnlyFile file = ReadOnlyFile(path, max_bytes_per_call);
    EXPECT_EQ(file.num_bytes(), bytes.size());
    EXPECT_EQ(read(file, 0, bytes.size()), bytes);
    EXPECT_EQ(read(file, 5, 100), bytes.substr(5, 100));
    expect_error([&] { read(file, bytes.size() - 10, 11); },
                 {path, "ends at byte " + std::to_string(bytes.size()), "11 bytes from byte"});
  }
}

// Also where the read began beyond the new end.
TEST(ReadOnlyFile, SaysWhereAFileEndsThatWasCutWhileItWasInUse) {
  const TempFolder folder;
  const std::string path = folder.write("file", std::string(1000, 'x'));
  const ReadOnlyFile file(path);
  std::filesystem::resize_file(path, 200);
  expect_error([&] { read(file, 500, 34); }, {path, "ends at byte 200,", "34 bytes from byte 500"});
  expect_error([&] { read(file, 100, 300); }, {path, "ends at byte 200,", "300 bytes from byte 100"});
}

TEST(ReadOnlyFile, TheBeginningOfWhatIsNoRegularFileIsEmpty) {
  const TempFolder folder;
  const std::string path = folder.write("file", "begin and end");
  EXPECT_EQ(beginning_of(path, 5), "begin");
  EXPECT_EQ(beginning_of(path, 100), "begin and end");
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  for (const char* name : {"pipe", ".", "absent"})  // a FIFO without a writer must not make its reader wait
    EXPECT_EQ(beginning_of(folder.path(name), 5), "") << name;
}

// Beyond what 32 bits count.
TEST(ReadOnlyFile, ReadsAtPositionsOfManyGigabytes) {
  const TempFolder folder;
  const std::string path = folder.write("file", "begin");
  constexpr uint64_t kFar = (uint64_t{5} << 30) + 3;
  std::filesystem::resize_file(path, kFar);  // a hole
  std::ofstream(path, std::ios::binary | std::ios::app) << "end";
  const ReadOnlyFile file(path);
  EXPECT_EQ(file.num_bytes(), kFar + 3);
  EXPECT_EQ(read(file, kFar, 3), "end");
  EXPECT_EQ(read(file, 0, 5), "begin");
}

}  // namespace
}  // namespace tessera::testing
