// Parts of files that are read before they are needed, or were not.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <random>

#include "storage/block_sums.h"
#include "storage/read_ahead.h"
#include "support/child_process.h"
#include "support/expect_error.h"
#include "support/patience.h"
#include "support/refused_call.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

using namespace host;

constexpr uint64_t kMost = ReadAhead::kMaxBytes;

std::string random_bytes(uint64_t num_bytes) {
  std::mt19937 random(1);
  std::string bytes(num_bytes, '\0');
  for (char& byte : bytes)
    byte = static_cast<char>(random());
  return bytes;
}

struct Range {
  uint64_t offset, num_bytes;
};

/// Ranges of up to kMost anywhere in a file, the last one at its end.
std::vector<Range> random_ranges(uint64_t num_bytes, size_t count) {
  std::mt19937_64 random(2);
  std::vector<Range> ranges;
  for (size_t i = 0; i + 1 < count; ++i) {
    const uint64_t length = 1 + random() % (i % 3 ? kMost : kBlockBytes);
    ranges.push_back({random() % (num_bytes - length), length});
  }
  ranges.push_back({num_bytes - 300'000, 300'000});
  return ranges;
}

/// Announces up to `ahead` ranges before each is read; some are never announced, some never read.
bool reads_the_same(const ReadOnlyFile& file, const std::string& bytes, size_t ahead) {
  ReadAhead reader;
  const std::vector<Range> ranges = random_ranges(bytes.size(), 150);
  size_t announced = 0;
  FileBytes out;
  for (size_t i = 0; i < ranges.size(); ++i) {
    for (; announced < std::min(i + ahead, ranges.size()); ++announced)
      if (announced % 7) reader.expect(file, ranges[announced].offset, ranges[announced].num_bytes);
    if (i % 11 == 5) continue;
    reader.read(file, ranges[i].offset, ranges[i].num_bytes, out);
    if (raw_bytes(out.bytes) != bytes.substr(ranges[i].offset, ranges[i].num_bytes)) return false;
  }
  return true;
}

TEST(ReadAhead, ReadsWhatTheFileHolds) {
  const TempFolder folder;
  const std::string bytes = random_bytes(9 * kMost + 4321);
  const ReadOnlyFile file(folder.write("file", bytes));
  for (const size_t ahead : {size_t{0}, size_t{3}, size_t{20}})
    EXPECT_TRUE(reads_the_same(file, bytes, ahead)) << ahead;
}

TEST(ReadAhead, NeedsNoDirectIo) {
  const TempFolder folder;
  const std::string bytes = random_bytes(3 * kMost);
  const std::string path = folder.write("file", bytes);
  for (const bool is_opened : {false, true}) {
    ChildProcess child([&](const auto& say) {
      const ReadOnlyFile file(path);
      if (is_opened)  // the transfers are refused then
        refuse_call(SYS_pread64, EINVAL, {{0, ~0u, [] {
                                             const int next = ::open("/dev/null", O_RDONLY);
                                             ::close(next);
                                             return static_cast<uint32_t>(next);
                                           }()}});
      else
        refuse_call(SYS_openat, EINVAL, {{2, O_DIRECT, O_DIRECT}});
      say(reads_the_same(file, bytes, 3) ? "same" : "other");
    });
    EXPECT_EQ(child.next_line(kPatienceMs), "same") << is_opened;
  }
}

TEST(ReadAhead, SaysWhereAFileEnds) {
  const TempFolder folder;
  const ReadOnlyFile file(folder.write("file", random_bytes(kMost)));
  ReadAhead reader;
  reader.expect(file, kMost / 2, kMost);
  FileBytes out;
  expect_error([&] { reader.read(file, kMost / 2, kMost, out); },
               {"file ends at byte " + std::to_string(kMost), "was it cut while it was in use?"});
}

}  // namespace
}  // namespace tessera::testing
