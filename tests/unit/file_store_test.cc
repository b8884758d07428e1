#include "storage/file_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <future>
#include <random>
#include <system_error>
#include <thread>

#include "storage/uring_queue.h"
#include "support/expect_error.h"
#include "support/store_files.h"
#include "support/temp_folder.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::vector<std::byte> random_bytes(uint64_t num_bytes, std::mt19937_64& random) {
  std::vector<std::byte> bytes(num_bytes);
  for (uint64_t i = 0; i < num_bytes; i += 8) {
    const uint64_t value = random();
    std::memcpy(bytes.data() + i, &value, std::min<uint64_t>(8, num_bytes - i));
  }
  return bytes;
}

/// Of at least one byte; fast under sanitizers, too.
bool all_are(std::span<const std::byte> bytes, std::byte value) {
  return bytes[0] == value && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

const Log& quiet() {
  static const Log log(LogLevel::off);
  return log;
}

TEST(Crc32c, IsTheCrcOfIscsi) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c(std::array<std::byte, 32>{}), 0x8A9136AAu);
}

// A write that --debug-replicas sums is as long as a parameter.
TEST(Crc32c, CountsBytesBeyondFourGiB) {
  constexpr size_t kNumBytes = (size_t{4} << 30) + 8192;
  void* const zeros =
      ::mmap(nullptr, kNumBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(zeros, MAP_FAILED);
  const std::span bytes(static_cast<std::byte*>(zeros), kNumBytes);
  const uint32_t before = crc32c(bytes);
  bytes[kNumBytes - 1] = std::byte{1};
  EXPECT_NE(crc32c(bytes), before);
  ::munmap(zeros, kNumBytes);
}

uint64_t file_bytes(const StripedFiles& files, size_t index) {
  return static_cast<uint64_t>(::lseek(files.file(index).descriptor(), 0, SEEK_END));
}

TEST(StripedFiles, EveryBlockHasAPlaceOfItsOwnWithinTheFiles) {
  const TempFolder folder;
  for (const size_t num_folders : {1, 2, 3}) {
    for (const uint64_t num_bytes : {kBlockBytes, kMiB, kMiB + 5, 3 * kMiB, 7 * kMiB - 4096, 8 * kMiB}) {
      const StripedFiles files(std::vector<std::string>(num_folders, folder.path()), num_bytes, quiet());
      std::set<std::pair<size_t, uint64_t>> places;
      for (uint64_t offset = 0; offset < num_bytes; offset += kBlockBytes) {
        const Piece piece = files.first_piece(offset, offset + kBlockBytes);
        EXPECT_EQ(piece.num_bytes, kBlockBytes);
        EXPECT_LE(piece.file_offset + kBlockBytes, file_bytes(files, piece.file)) << offset;
        EXPECT_TRUE(places.insert({piece.file, piece.file_offset}).second) << offset;
      }
      uint64_t reserved = 0;
      for (size_t i = 0; i < num_folders; ++i)
        reserved += file_bytes(files, i);
      EXPECT_EQ(reserved, places.size() * kBlockBytes) << num_folders << " folders, " << num_bytes << " bytes";
    }
  }
}

class FileStoreTest : public ::testing::TestWithParam<IoEngine> {
 protected:
  void SetUp() override {
    if (GetParam() == IoEngine::uring && FileStore({.folders = {folder_.path()}}, quiet()).engine() != IoEngine::uring)
      GTEST_SKIP() << "needs io_uring, which this system refuses";
  }
  FileStoreOptions options(uint64_t num_bytes) const {
    return {.folders = {folder_.path()}, .num_bytes = num_bytes, .engine = GetParam()};
  }

  const TempFolder folder_;
};

/// A store, and in memory what it must hold.
class Compared {
 public:
  Compared(const FileStoreOptions& options, uint64_t seed)
      : store_(options, quiet()), expected_(store_.num_bytes()), random_(seed) {}

  void write_somewhere() {
    const auto [offset, num_bytes] = somewhere();
    // Half of the transfers begin at any address.
    const uint64_t shift = random_() % 2 ? random_() % kBlockBytes : 0;
    auto memory = random_bytes(num_bytes + 2 * kBlockBytes, random_);
    const std::span<std::byte> data(aligned(memory) + shift, num_bytes);
    store_.write(offset, data, "here");
    std::byte* const to = expected_.data() + offset;
    std::memcpy(to, data.data(), num_bytes);
    std::memset(to + num_bytes, 0, whole_blocks(num_bytes) - num_bytes);
  }

  void read_somewhere() {
    const auto [offset, num_bytes] = somewhere();
    const uint64_t shift = random_() % 2 ? random_() % kBlockBytes : 0;
    std::vector<std::byte> memory(num_bytes + 2 * kBlockBytes, std::byte{0x5a});
    std::byte* const data = aligned(memory) + shift;
    store_.read(offset, {data, num_bytes}, "here");
    ASSERT_EQ(std::memcmp(data, expected_.data() + offset, num_bytes), 0) << num_bytes << " bytes at " << offset;
    const std::span<const std::byte> past(data + num_bytes, memory.data() + memory.size());
    ASSERT_TRUE(all_are(past, std::byte{0x5a})) << "written past the end";
  }

 private:
  static std::byte* aligned(std::vector<std::byte>& memory) {
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    return memory.data() + (whole_blocks(address) - address);
  }
  std::pair<uint64_t, uint64_t> somewhere() {
    const uint64_t offset = random_() % (expected_.size() / kBlockBytes) * kBlockBytes;
    uint64_t num_bytes = 1 + random_() % std::min<uint64_t>(expected_.size() - offset, 3 * kMiB);
    if (random_() % 2) num_bytes = whole_blocks(num_bytes);
    return {offset, num_bytes};
  }

  FileStore store_;
  std::vector<std::byte> expected_;
  std::mt19937_64 random_;
};

TEST_P(FileStoreTest, HoldsWhatWasWritten) {
  struct Setting {
    size_t num_folders;
    uint64_t max_bytes_per_call;
    bool check;
  };
  for (const Setting& setting : {Setting{1, kStripeBytes, true}, Setting{2, kStripeBytes / 16, true},
                                 Setting{3, kStripeBytes, true}, Setting{1, kStripeBytes / 4, false}}) {
    FileStoreOptions options = this->options(9 * kMiB + 5);
    options.folders.resize(setting.num_folders, folder_.path());
    options.max_bytes_per_call = setting.max_bytes_per_call;
    options.check = setting.check;
    Compared store(options, setting.num_folders);
    for (int i = 0; i < 16; ++i) {
      ASSERT_NO_FATAL_FAILURE(store.read_somewhere());
      store.write_somewhere();
    }
  }
}

// More than are in flight at once.
TEST_P(FileStoreTest, MovesManyRequestsInOneTransfer) {
  FileStore store(options(40 * kMiB), quiet());
  std::mt19937_64 random(1);
  const auto data = random_bytes(40 * kMiB, random);
  store.write(0, data, "all");
  std::vector<std::byte> copy(data.size());
  store.read(0, copy, "all");
  EXPECT_TRUE(copy == data);
  for (const TransferCounts& counts : {store.write_counts(), store.read_counts()}) {
    EXPECT_EQ(counts.num_bytes, 40 * kMiB);
    EXPECT_EQ(counts.num_requests, 40u);
    EXPECT_GT(counts.busy_ns, 0);
  }
}

TEST_P(FileStoreTest, ReadsWhileItWrites) {
  FileStore store(options(16 * kMiB), quiet());
  std::mt19937_64 random(2);
  const auto first = random_bytes(8 * kMiB, random), second = random_bytes(8 * kMiB, random);
  store.write(0, first, "first");
  std::thread writer([&] {
    for (int i = 0; i < 4; ++i)
      store.write(8 * kMiB, second, "second");
  });
  std::vector<std::byte> copy(8 * kMiB);
  for (int i = 0; i < 4; ++i) {
    store.read(0, copy, "first");
    EXPECT_TRUE(copy == first);
    copy.assign(copy.size(), std::byte{});
  }
  writer.join();
  store.read(8 * kMiB, copy, "second");
  EXPECT_TRUE(copy == second);
}

TEST_P(FileStoreTest, AFlippedBitIsDataLoss) {
  for (const bool check : {true, false}) {
    FileStoreOptions options = this->options(4 * kMiB);
    options.check = check;
    FileStore store(options, quiet());
    std::mt19937_64 random(3);
    const auto data = random_bytes(4 * kMiB, random);
    store.write(0, data, "optimizer h.3 m");
    const auto files = unnamed_files(folder_.path());
    ASSERT_EQ(files.size(), 1u);
    flip_bit(files[0], 2 * kMiB + 3 * kBlockBytes + 17);
    std::vector<std::byte> copy(data.size());
    const auto read = [&] { store.read(0, copy, "optimizer h.3 m"); };
    if (!check) {
      EXPECT_NO_THROW(read());
      continue;
    }
    expect_error(read, {"offload file: 4096 bytes of optimizer h.3 m at 2109440 are not what was written (crc32c)",
                        folder_.path()});
    // Other ranges are as before, and what is written anew is good.
    store.read(0, std::span(copy).first(2 * kMiB), "before");
    store.write(0, data, "optimizer h.3 m");
    read();
    EXPECT_TRUE(copy == data);
  }
}

// The first piece fails while the others are in flight: they may neither come back into freed memory nor be taken for
// those of the next transfer.
TEST_P(FileStoreTest, AnErrorLeavesNothingInFlight) {
  FileStore store(options(17 * kMiB), quiet());
  std::mt19937_64 random(4);
  const auto data = random_bytes(17 * kMiB, random);
  store.write(0, data, "all");
  flip_bit(unnamed_files(folder_.path()).at(0), 5);
  for (int i = 0; i < 5; ++i) {
    std::vector<std::byte> memory(16 * kMiB);
    expect_error([&] { store.read(0, memory, "all"); }, {"4096 bytes of all at 0 are not what was written"});
    store.read(kMiB, memory, "good");
    EXPECT_EQ(std::memcmp(memory.data(), data.data() + kMiB, memory.size()), 0);
  }
}

TEST_P(FileStoreTest, AFileThatWasCutIsDataLoss) {
  FileStore store(options(4 * kMiB), quiet());
  ASSERT_EQ(::ftruncate(unnamed_files(folder_.path()).at(0), 3 * kMiB + 4096), 0);
  std::vector<std::byte> copy(4 * kMiB);
  expect_error([&] { store.read(0, copy, "gradient h.1"); },
               {"offload file: it ends within gradient h.1 at 3149824 in --offload-dir " + folder_.path()});
}

// After the deadline nothing is moved any more: the memory is the caller's again.
TEST_P(FileStoreTest, ATransferThatTakesTooLongHasLeftTheMemory) {
  constexpr uint64_t kLong = 64 * kMiB;  // 1 ms would take 64 GB/s
  FileStoreOptions options = this->options(kLong);
  options.timeout_ms = 1;
  FileStore store(options, quiet());
  std::vector<std::byte> memory(kLong, std::byte{1});
  const auto expect_deadline = [&](auto&& action, const char* what) {
    try {
      action();
      ADD_FAILURE() << what << " had time";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), TSR_E_DEADLINE);
      EXPECT_EQ(error.what(), std::string("offload file: ") + what +
                                  " 67108864 bytes of home wte at 0 timed out after 1 ms; use a faster disk, or raise "
                                  "--timeout-ms");
    }
  };
  expect_deadline([&] { store.write(0, memory, "home wte"); }, "writing");
  expect_deadline([&] { store.read(0, memory, "home wte"); }, "reading");
  memory.assign(kLong, std::byte{2});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(all_are(memory, std::byte{2}));
}

TEST_P(FileStoreTest, RangesOutsideOfTheStoreAreRefused) {
  FileStore store(options(5000), quiet());
  EXPECT_EQ(store.num_bytes(), 8192u);
  std::vector<std::byte> memory(8193);
  store.write(8192, std::span(memory).first(0), "nothing");
  expect_error([&] { store.write(1, memory, "h.0"); }, {"h.0 begins at 1, which is not a multiple of 4096"});
  expect_error([&] { store.read(0, memory, "h.0"); }, {"8193 bytes of h.0 at 0 end beyond the 8192 bytes"});
  expect_error([&] { store.read(~uint64_t{4095}, memory, "h.0"); }, {"end beyond the 8192 bytes of the store"});
}

INSTANTIATE_TEST_SUITE_P(Engines, FileStoreTest, ::testing::Values(IoEngine::uring, IoEngine::threads),
                         [](const auto& engine) { return engine.param == IoEngine::uring ? "Uring" : "Threads"; });

// Its memory is the kernel's until then.
TEST(UringQueue, WaitsForWhatIsInFlight) {
  std::unique_ptr<IoQueue> queue;
  try {
    queue = make_uring_queue();
  } catch (const std::system_error& error) {
    GTEST_SKIP() << error.what();
  }
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  std::byte byte{0};
  queue->start(0, {.descriptor = ends[0], .offset = 0, .data = &byte, .num_bytes = 1, .is_write = false});
  auto closed = std::async(std::launch::async, [&] { queue.reset(); });
  EXPECT_EQ(closed.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_EQ(::write(ends[1], "x", 1), 1);
  closed.get();
  EXPECT_EQ(byte, std::byte{'x'});
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace tessera::testing
