// Copies between memory and files begin and end within blocks, which a file store does not.
#include "exec/file_transfer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "support/temp_folder.h"

namespace tessera::testing {
using namespace host;
namespace {

struct Range {
  uint64_t offset, num_bytes;
};
constexpr uint64_t kBlocks = 4;
constexpr Range kRanges[] = {{0, 2 * kBlockBytes},  // whole blocks
                             {kBlockBytes, kBlockBytes + 40},
                             {kBlockBytes + 8, 2 * kBlockBytes - 8},
                             {kBlockBytes - 16, kBlockBytes + 32},
                             {2 * kBlockBytes + 8, 16}};

class FileTransfer : public ::testing::Test {
 protected:
  FileTransfer() { store_.write(0, expected_, "all"); }

  std::vector<std::byte> all() {
    std::vector<std::byte> bytes(expected_.size());
    store_.read(0, bytes, "all");
    return bytes;
  }

  const TempFolder folder_;
  FileStore store_{{.folders = {folder_.path()}, .num_bytes = kBlocks * kBlockBytes}, Log(LogLevel::off)};
  std::vector<std::byte> expected_ = std::vector<std::byte>(kBlocks * kBlockBytes, std::byte{0x5a});
};

TEST_F(FileTransfer, WritesARangeAndNothingElse) {
  int value = 0;
  for (const Range& range : kRanges) {
    const std::vector<std::byte> data(range.num_bytes, static_cast<std::byte>(++value));
    write_range(store_, range.offset, data, "here");
    std::memcpy(expected_.data() + range.offset, data.data(), data.size());
    EXPECT_EQ(all(), expected_) << range.num_bytes << " bytes at " << range.offset;
  }
}

TEST_F(FileTransfer, ReadsARange) {
  for (size_t i = 0; i < expected_.size(); ++i)
    expected_[i] = static_cast<std::byte>(i / 16);
  store_.write(0, expected_, "all");
  for (const Range& range : kRanges) {
    std::vector<std::byte> data(range.num_bytes);
    read_range(store_, range.offset, data, "here");
    EXPECT_EQ(std::memcmp(data.data(), expected_.data() + range.offset, data.size()), 0) << range.offset;
  }
}

}  // namespace
}  // namespace tessera::testing
