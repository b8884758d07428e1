// Ranks on one machine whose data lies where the system lets no process read, as CUDA's own pinned memory does: they
// send it. process_vm_readv is replaced by one that fails there, since what a driver maps needs a driver.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "support/comm_harness.h"

namespace {
std::atomic<const char*> driver_begin{nullptr}, driver_end{nullptr};
std::atomic<int> num_refused{0}, num_long_reads{0};
}  // namespace

extern "C" ssize_t process_vm_readv(pid_t process, const iovec* local, unsigned long num_local, const iovec* remote,
                                    unsigned long num_remote, unsigned long flags) noexcept {
  for (unsigned long i = 0; i < num_remote; ++i) {
    const char* begin = static_cast<const char*>(remote[i].iov_base);
    if (begin < driver_end && begin + remote[i].iov_len > driver_begin) {
      ++num_refused;
      errno = EFAULT;
      return -1;
    }
    if (remote[i].iov_len > 1024) ++num_long_reads;
  }
  return ::syscall(SYS_process_vm_readv, process, local, num_local, remote, num_remote, flags);
}

namespace tessera::testing {
namespace {

constexpr int kNumRanks = 3;
constexpr uint64_t kElements = 200'003;  // several chunks of each slice

/// The ranks' data, of which rank 1's lies in a driver's memory, or does not.
class DriverMemory : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const auto* begin = reinterpret_cast<const char*>(data_[1].data());
    driver_begin = GetParam() ? begin : nullptr;
    driver_end = GetParam() ? begin + kElements * sizeof(float) : nullptr;
    num_refused = num_long_reads = 0;
  }
  void TearDown() override { driver_begin = driver_end = nullptr; }

  void run(uint32_t kind) {
    run_ranks({"gloo-comm", kNumRanks}, [&](CommRank& rank) {
      float* const data = data_[rank.rank()].data();
      tsr_collective collective = make_collective(kind, TSR_F32, kElements, data, data);
      collective.reduce = TSR_REDUCE_SUM;
      collective.peer = 1;
      for (int round = 0; round < 3; ++round)
        rank.comm().submit(collective);
      rank.synchronize();
    });
    EXPECT_EQ(num_refused > 0, GetParam());
  }

  std::vector<float> data_[kNumRanks] = {std::vector<float>(kElements, 1), std::vector<float>(kElements, 2),
                                         std::vector<float>(kElements, 3)};
};

TEST_P(DriverMemory, IsSentInASum) {
  run(TSR_COLL_ALL_REDUCE);
  for (const std::vector<float>& data : data_)
    EXPECT_EQ(data, std::vector<float>(kElements, 6 * 3 * 3));
  EXPECT_GT(num_long_reads, 0) << "the other ranks read one another's";
}

TEST_P(DriverMemory, IsSentInABroadcast) {
  run(TSR_COLL_BROADCAST);
  for (const std::vector<float>& data : data_)
    EXPECT_EQ(data, std::vector<float>(kElements, 2));
  EXPECT_EQ(num_long_reads > 0, !GetParam());
}

// Ranks read operands and results.
TEST_P(DriverMemory, IsSentWhereOneOfOperandAndResultLiesThere) {
  for (const bool are_results : {false, true}) {
    std::vector<float> others[kNumRanks];
    for (std::vector<float>& other : others)
      other.assign(kElements, 2);
    run_ranks({"gloo-comm", kNumRanks}, [&](CommRank& rank) {
      std::vector<float>*const operands = are_results ? others : data_, *const results = are_results ? data_ : others;
      tsr_collective sum = make_collective(TSR_COLL_ALL_REDUCE, TSR_F32, kElements, operands[rank.rank()].data(),
                                           results[rank.rank()].data());
      sum.reduce = TSR_REDUCE_SUM;
      rank.comm().submit(sum);
      rank.synchronize();
    });
    for (const std::vector<float>& result : are_results ? data_ : others)
      EXPECT_EQ(result, std::vector<float>(kElements, 6));
  }
  EXPECT_EQ(num_refused > 0, GetParam());
}

// A mapping may end within what was allocated.
TEST_P(DriverMemory, IsSentWhereOnlyItsEndLiesThere) {
  if (GetParam()) driver_begin = driver_end - sizeof(float);
  run(TSR_COLL_BROADCAST);
  EXPECT_EQ(data_[0], std::vector<float>(kElements, 2));
  EXPECT_EQ(num_long_reads > 0, !GetParam());
}

INSTANTIATE_TEST_SUITE_P(Memory, DriverMemory, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "of_a_driver" : "of_the_process"; });

}  // namespace
}  // namespace tessera::testing
