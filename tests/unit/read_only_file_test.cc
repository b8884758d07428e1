#include "base/read_only_file.h"

#include <gtest/gtest.h>

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
