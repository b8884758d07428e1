// Jobs that strangers visit at every port, at every moment: all end well, with the same numbers to the last bit.
#include <gtest/gtest.h>

#include "e2e/cli.h"
#include "support/setting.h"
#include "support/strangers.h"

namespace tessera::testing {
namespace {

/// The numbers of a job of three ranks; throws when it does not end well. `num_visits` strangers came.
std::vector<std::string> run_job(const std::string& metrics, unsigned seed, bool has_strangers, int& num_visits) {
  Command job(train({"--nproc=3", "--strategy=ddp", "--comm=gloo", "--steps=2",
                     "--start-timeout-ms=" + std::to_string(kPatienceMs), "--metrics=" + metrics}));
  CommandResult result;
  if (has_strangers) {
    const Strangers strangers([&] { return family_of(job.pid()); }, seed);
    result = job.wait();
    num_visits += strangers.num_made();
  } else {
    result = job.wait();
  }
  EXPECT_EQ(result.exit_code, 0) << "seed " << seed << ": " << result.err;
  std::vector<std::string> numbers;
  for (const auto& line : read_metrics(metrics))
    numbers.push_back(line.at("loss").dump() + " " + line.at("grad_norm").dump());
  return numbers;
}

TEST(StrangersTest, DoNoHarmToAJob) {
  const TempFolder folder;
  const auto metrics = [&](unsigned job) { return folder.path(std::to_string(job)); };
  int num_visits = 0;
  const auto calm = run_job(metrics(0), 0, false, num_visits);
  ASSERT_EQ(calm.size(), 2u);
  const auto num_jobs = static_cast<unsigned>(setting("TESSERA_NUM_JOBS", 10));
  for (unsigned seed = 1; seed <= num_jobs; ++seed)
    ASSERT_EQ(run_job(metrics(seed), seed, true, num_visits), calm) << "seed " << seed;
  EXPECT_GT(num_visits, static_cast<int>(num_jobs));
  std::printf("%u jobs, %d visits of strangers\n", num_jobs, num_visits);
}

}  // namespace
}  // namespace tessera::testing
