// What ranks of one machine need together in the folders of --offload-dir.
#include "storage/free_space.h"

#include <gtest/gtest.h>
#include <sys/statfs.h>

#include <filesystem>
#include <numeric>

#include "storage/striped_files.h"
#include "support/temp_folder.h"

namespace tessera::testing {
using namespace host;
namespace {

uint64_t free_bytes(const std::string& folder) {
  struct statfs info {};
  EXPECT_EQ(::statfs(folder.c_str(), &info), 0);
  return info.f_bavail * static_cast<uint64_t>(info.f_bsize);
}

std::string missing(const std::vector<SpaceNeed>& ranks) {
  return missing_space(ranks);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(FreeSpace, IsForAllRanksTogether) {
  const TempFolder folder;
  const uint64_t most = free_bytes(folder.path()) / 4 * 3;
  const SpaceNeed need{{folder.path()}, most};
  EXPECT_EQ(missing({need}), "");
  const std::string said = missing({need, need});
  EXPECT_TRUE(said.starts_with("--offload-dir " + folder.path() + " has ")) << said;
  EXPECT_TRUE(contains(said, " free; the 2 ranks on this machine need ")) << said;
  EXPECT_TRUE(said.ends_with(" there")) << said;
}

TEST(FreeSpace, OfOneRankIsItsOwn) {
  const TempFolder folder;
  const std::string said = missing({{{folder.path()}, 2 * free_bytes(folder.path())}, {{}, 0}});
  EXPECT_TRUE(contains(said, " free; this rank needs ")) << said;
}

TEST(FreeSpace, OfTwoFoldersOnOneDiskIsThatOfTheDisk) {
  const TempFolder folder;
  const std::string a = folder.path("a"), b = folder.path("b");
  std::filesystem::create_directory(a);
  std::filesystem::create_directory(b);
  const uint64_t most = free_bytes(folder.path()) / 4 * 3;
  EXPECT_EQ(missing({{{a, b}, most}}), "");
  EXPECT_TRUE(contains(missing({{{a, b}, 2 * most}}), "this rank needs "));
  EXPECT_TRUE(contains(missing({{{a}, most}, {{b}, most}}), "the 2 ranks on this machine need "));
}

TEST(FreeSpace, OfAFolderThatIsNotThereIsNotKnown) {
  EXPECT_EQ(missing({{{"/nowhere"}, uint64_t{1} << 60}}), "");
  EXPECT_EQ(missing({}), "");
}

TEST(StripeShares, AddUpToWholeBlocks) {
  for (const uint64_t num_bytes : {uint64_t{0}, uint64_t{1}, kStripeBytes, 5 * kStripeBytes + 5000})
    for (const size_t num_folders : {1u, 2u, 3u}) {
      const std::vector<uint64_t> shares = stripe_shares(num_folders, num_bytes);
      ASSERT_EQ(shares.size(), num_folders);
      EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), uint64_t{0}), (num_bytes + 4095) / 4096 * 4096);
      EXPECT_LE(std::ranges::max(shares) - std::ranges::min(shares), kStripeBytes);
    }
  EXPECT_TRUE(stripe_shares(0, 100).empty());
}

}  // namespace
}  // namespace tessera::testing
