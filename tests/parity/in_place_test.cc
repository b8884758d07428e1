// Collectives that no shipped strategy inserts, as they are run: a reduction to slices and a gather of them, in place,
// make a sum; uneven messages of all to all arrive; and two instances of one strategy have a state each.
#include <gtest/gtest.h>

#include "support/local_job.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

const std::string kPluginDir = "--plugin-dir=" + binary_dir("tests/in_place_strategy");

std::vector<std::string> with(std::vector<std::string> flags, const std::vector<std::string>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

std::vector<std::string> job_flags() {
  return {"--model=" + golden_folder(),
          "--data=" + golden_folder() + "/tokens.bin",
          "--batch-size=1",
          "--seq-len=16",
          "--steps=4",
          "--grad-accum=2",
          "--debug-memory"};
}

TEST(InPlace, ScatterAndGatherAreASum) {
  for (const int num_ranks : {1, 2, 4})
    for (const char* comm : {"local", "gloo"})
      for (const char* every : {"--reduce-every=step", "--reduce-every=micro-batch"}) {
        const std::vector<std::string> job = with(job_flags(), {every});
        const auto in_place = with(job, {"--strategy=in-place", kPluginDir});
        const RunResult ddp = run_local(job, num_ranks);
        EXPECT_GT(ddp.steps.front().grad_norm, 0.1);
        EXPECT_EQ(first_difference(ddp, run_local(in_place, num_ranks, comm)), "") << num_ranks << comm << every;
      }
}

TEST(Routing, UnevenMessagesArrive) {
  for (const int num_ranks : {2, 3})
    for (const char* comm : {"local", "gloo"}) {
      const auto routing = with(job_flags(), {"--strategy=routing", kPluginDir});
      EXPECT_EQ(first_difference(run_local(job_flags(), num_ranks), run_local(routing, num_ranks, comm)), "")
          << num_ranks << comm;
    }
}

TEST(Routing, TwoInstancesHaveAStateEach) {
  const std::string mesh = "--mesh=a=2,b=2";
  const auto ddp = with(job_flags(), {mesh, "--strategy=a=ddp,b=ddp"});
  const auto routing = with(job_flags(), {mesh, "--strategy=a=routing,b=routing", kPluginDir});
  EXPECT_EQ(first_difference(run_local(ddp, 4), run_local(routing, 4)), "");
}

}  // namespace
}  // namespace tessera::testing
