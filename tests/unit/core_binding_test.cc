// Ranks that share a machine, each on its own cores.
#include "machine/core_binding.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <set>
#include <thread>

namespace tessera::host {
namespace {

std::vector<int> cores_of_this_thread() {
  cpu_set_t set;
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

std::vector<int> sorted(std::span<const int> cores) {
  const std::set<int> ordered(cores.begin(), cores.end());
  return {ordered.begin(), ordered.end()};
}

TEST(CoreBinding, SharesAreDisjointNeighborsAndAllCores) {
  const std::vector<int> cores = {4, 0, 5, 1, 6, 2, 7};
  for (int num_shares = 1; num_shares <= 7; ++num_shares) {
    std::vector<int> all;
    for (int i = 0; i < num_shares; ++i) {
      const auto share = share_of_cores(cores, i, num_shares);
      EXPECT_GE(share.size(), cores.size() / static_cast<size_t>(num_shares));
      EXPECT_LE(share.size(), cores.size() / static_cast<size_t>(num_shares) + 1);
      all.insert(all.end(), share.begin(), share.end());
    }
    EXPECT_EQ(all, cores);
  }
}

TEST(CoreBinding, AThreadAndThoseItStartsKeepToTheirCoresUntilItEnds) {
  const std::vector<int> before = sorted(cores_of_process());
  ASSERT_FALSE(before.empty());
  ASSERT_EQ(cores_of_this_thread(), before);
  {
    const auto own = share_of_cores(cores_of_process(), 0, static_cast<int>(before.size()));
    const CoreBinding binding(own);
    EXPECT_TRUE(binding.is_bound());
    EXPECT_EQ(cores_of_this_thread(), sorted(own));
    std::vector<int> of_child;
    std::thread([&of_child] { of_child = cores_of_this_thread(); }).join();
    EXPECT_EQ(of_child, sorted(own));
    EXPECT_EQ(num_cores(), static_cast<int>(before.size()));
  }
  EXPECT_EQ(cores_of_this_thread(), before);
}

TEST(CoreBinding, NoCoresOrOthersThanThereAreBindNothing) {
  EXPECT_FALSE(CoreBinding({}).is_bound());
  EXPECT_FALSE(CoreBinding(std::vector<int>{CPU_SETSIZE - 1}).is_bound());
  EXPECT_EQ(cores_of_this_thread(), sorted(cores_of_process()));
}

}  // namespace
}  // namespace tessera::host
