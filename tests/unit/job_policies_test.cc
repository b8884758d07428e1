// --offload of a job: its plugins in their order, their options, their instances, and what ranks compare of them.
#include "job/job_policies.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "config/usage_error.h"
#include "launch/memory_store.h"
#include "plugins/host_services.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temp_folder.h"
#include "train/consistency.h"

namespace tessera::testing {
using namespace host;
namespace {

const Log kQuiet(LogLevel::off);

Job job(const std::vector<std::string>& more, int num_ranks = 1) {
  const std::string golden = source_dir("tests/golden/gpt2-nano");
  std::vector<std::string> flags = {"--model=" + golden,
                                    "--data=" + golden + "/tokens.bin",
                                    "--batch-size=1",
                                    "--seq-len=8",
                                    "--steps=1",
                                    "--comm=local",
                                    "--plugin-dir=" + plugin_dir(),
                                    "--plugin-dir=" + binary_dir("tests/bad_policies"),
                                    "--plugin-dir=" + binary_dir("tests/template")};
  flags.insert(flags.end(), more.begin(), more.end());
  return make_job(parse_flags(FlagSet::train, flags), num_ranks, kQuiet);
}

void refuse(const std::vector<std::string>& flags, const std::vector<std::string>& parts) {
  expect_error<UsageError>([&] { job(flags); }, parts);
}

TEST(JobPolicies, AreNoneWithoutTheFlag) {
  const Job without = job({});
  const HostServices host(kQuiet);
  EXPECT_TRUE(without.plugins.offload.empty());
  EXPECT_TRUE(JobPolicies(without, host).all().empty());
}

TEST(JobPolicies, AreInTheOrderOfTheFlagEachWithItsOptions) {
  const Job two = job({"--offload=saved-out,faulty", "--saved_out.ahead=3", "--faulty.fault=twice"});
  ASSERT_EQ(two.plugins.offload.size(), 2u);
  EXPECT_EQ(two.options.offload[0].values()[0].i, 3);
  EXPECT_EQ(view(two.options.offload[1].values()[0].s), "twice");
  const HostServices host(kQuiet);
  const JobPolicies policies(two, host);
  ASSERT_EQ(policies.all().size(), 2u);
  EXPECT_EQ(policies.all()[0].name, "saved-out");
  EXPECT_EQ(policies.all()[1].name, "faulty");
  for (const OffloadPolicy& policy : policies.all())
    EXPECT_TRUE(policy.interface && policy.instance);
  EXPECT_EQ(job({"--offload=faulty,saved-out"}).plugins.offload[0].name, "faulty");
}

TEST(JobPolicies, MayBePaths) {
  const Job by_path = job({"--offload=" + binary_dir("tests/template") + "/saved-out-offload.so"});
  EXPECT_EQ(by_path.plugins.offload.at(0).name, "saved-out");
  EXPECT_EQ(by_path.options.offload.at(0).values()[0].i, 1) << "the default";
}

TEST(JobPolicies, ThatAreNotThereOrOfAnotherKindAreRefused) {
  refuse({"--offload=saved-uot"},
         {"plugin saved-uot for --offload was not found: no file saved-uot-offload.so", "did you mean saved-out?"});
  refuse({"--offload=" + plugin_dir() + "/ddp.so"}, {"is a strategy, but --offload needs an offload policy"});
}

TEST(JobPolicies, AreNamedOnce) {
  refuse({"--offload=faulty,saved-out,faulty"}, {"--offload names the policy faulty twice; name each once"});
  refuse({"--offload=faulty," + binary_dir("tests/bad_policies") + "/faulty-offload.so"},
         {"--offload names the policy faulty twice: ", "faulty-offload.so", "name each once"});
}

TEST(JobPolicies, HaveTheOptionsThatTheyDeclareAndNoOthers) {
  refuse({"--offload=saved-out", "--saved-out.after=1"},
         {"no plugin of this run has the option --saved-out.after", "saved-out"});
  refuse({"--offload=saved-out", "--saved-out.ahaed=1"}, {"did you mean --saved-out.ahead?"});
  refuse({"--offload=faulty", "--saved-out.ahead=1"}, {"no plugin of this run has the option --saved-out.ahead"});
  refuse({"--offload=saved-out", "--saved-out.ahead=65"},
         {"--saved-out.ahead is '65'", "0 to 64", "see tessera plugins info saved-out"});
  refuse({"--offload=saved-out", "--dp.saved-out.ahead=1"}, {"--dp.saved-out.ahead"});
}

TEST(JobPolicies, RefuseOptionsAsUsageErrors) {
  const Job refused = job({"--offload=saved-out,faulty", "--faulty.fault=options"});
  const HostServices host(kQuiet);
  expect_error<UsageError>([&] { JobPolicies(refused, host); },
                           {"[faulty] fault=options goes with no other option", "see tessera plugins info faulty"});
}

/// What two ranks with these jobs say of one another; "": nothing.
std::string disagreement_of(const Job& first, const Job& second) {
  const auto store = std::make_shared<MemoryStore>();
  std::string said[2];
  std::vector<std::thread> ranks;
  for (const int rank : {0, 1})
    ranks.emplace_back([&, rank] {
      try {
        const Job& own = rank == 0 ? first : second;
        const RankInfo info{rank, rank, 2, true, store};
        check_job_consistency(own, open_data(own), info, 1, kQuiet);
      } catch (const Error& error) {
        said[rank] = error.what();
      }
    });
  for (std::thread& rank : ranks)
    rank.join();
  EXPECT_EQ(said[0].empty(), said[1].empty());
  return said[1];
}

std::string disagreement(const std::vector<std::string>& first, const std::vector<std::string>& second) {
  return disagreement_of(job(first, 2), job(second, 2));
}

TEST(JobPolicies, AreEqualOnAllRanks) {
  EXPECT_EQ(disagreement({"--offload=saved-out"}, {"--offload=saved-out"}), "");
  EXPECT_NE(disagreement({"--offload=saved-out"}, {})
                .find("the ranks differ in --offload: rank 0 has 'saved-out' and rank 1 has nothing"),
            std::string::npos);
  EXPECT_NE(disagreement({"--offload=saved-out,faulty"}, {"--offload=faulty,saved-out"})
                .find("--offload: rank 0 has 'saved-out,faulty' and rank 1 has 'faulty,saved-out'"),
            std::string::npos);
  EXPECT_NE(
      disagreement({"--offload=saved-out"}, {"--offload=saved-out", "--saved-out.ahead=2"}).find("--saved-out.ahead"),
      std::string::npos);
}

// Under one name, two files.
TEST(JobPolicies, AreTheSameFileOnAllRanks) {
  const TempFolder folder;
  const std::string original = binary_dir("tests/template/saved-out-offload.so"),
                    other = folder.path("saved-out-offload.so");
  std::filesystem::copy(original, other);
  std::ofstream(other, std::ios::app | std::ios::binary) << '\0';
  const std::string link = folder.path("link-offload.so");
  std::filesystem::create_symlink(original, link);
  const Job first = job({"--offload=" + link}, 2);
  std::filesystem::remove(link);
  std::filesystem::create_symlink(other, link);
  const std::string said = disagreement_of(first, job({"--offload=" + link}, 2));
  EXPECT_NE(said.find("plugin saved-out"), std::string::npos) << said;
}

}  // namespace
}  // namespace tessera::testing
