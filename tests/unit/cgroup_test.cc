// Limits of control groups, from the files of both versions of their hierarchies.
#include "machine/cgroup.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temp_folder.h"

namespace tessera::host {
namespace {

class Cgroup : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  CgroupLimits limits(const std::string& membership) {
    write("/membership", membership);
    return cgroup_limits(folder_.path() + "/membership", folder_.path() + "/root");
  }

  const testing::TempFolder folder_;
};

TEST_F(Cgroup, OfVersion2HaveThoseOfTheGroupsThatHoldThem) {
  write("/root/jobs/memory.max", "500000000");
  write("/root/jobs/a/memory.max", "max");
  write("/root/jobs/a/cpu.max", "150000 100000");
  write("/root/jobs/cpu.max", "max 100000");
  const CgroupLimits of_a = limits("0::/jobs/a");
  EXPECT_EQ(of_a.memory_bytes, 500'000'000u);
  EXPECT_EQ(of_a.cores, 1.5);
  const CgroupLimits of_b = limits("0::/jobs/b");
  EXPECT_EQ(of_b.memory_bytes, 500'000'000u);
  EXPECT_EQ(of_b.cores, std::nullopt);
}

TEST_F(Cgroup, OfVersion1AreByController) {
  write("/root/memory/docker/memory.limit_in_bytes", "1000000000");
  write("/root/memory/memory.limit_in_bytes", "9223372036854771712");  // none
  write("/root/cpu/docker/cpu.cfs_quota_us", "200000");
  write("/root/cpu/docker/cpu.cfs_period_us", "100000");
  for (const char* controllers : {"cpu", "cpu,cpuacct"}) {
    const CgroupLimits found = limits(std::string("4:memory:/docker\n3:") + controllers + ":/docker\n1:cpuset:/docker");
    EXPECT_EQ(found.memory_bytes, 1'000'000'000u);
    EXPECT_EQ(found.cores, 2);
  }
  write("/root/cpu/docker/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(limits("3:cpu:/docker").cores, std::nullopt);
}

// A container sees the path of the host, and its own files at the root.
TEST_F(Cgroup, OfAContainerAreAtTheRoot) {
  write("/root/memory.max", "700000000");
  EXPECT_EQ(limits("0::/system.slice/docker-0a1b.scope").memory_bytes, 700'000'000u);
  write("/root/memory.max", "nonsense");
  EXPECT_EQ(limits("0::/").memory_bytes, std::nullopt);
  EXPECT_EQ(limits("a line without colons").memory_bytes, std::nullopt);
}

}  // namespace
}  // namespace tessera::host
