// Collectives in place, as they are run: a reduction to slices and a gather of them make a sum.
#include <gtest/gtest.h>

#include "support/local_job.h"

namespace tessera::testing {
namespace {

TEST(InPlace, ScatterAndGatherAreASum) {
  for (const int num_ranks : {1, 2, 4})
    for (const char* comm : {"local", "gloo"})
      for (const char* every : {"--reduce-every=step", "--reduce-every=micro-batch"}) {
        const std::vector<std::string> job = {"--model=" + golden_folder(),
                                              "--data=" + golden_folder() + "/tokens.bin",
                                              "--batch-size=1",
                                              "--seq-len=16",
                                              "--steps=4",
                                              "--grad-accum=2",
                                              "--debug-memory",
                                              every};
        auto in_place = job;
        in_place.insert(in_place.end(),
                        {"--strategy=in-place", std::string("--plugin-dir=") + TESSERA_IN_PLACE_STRATEGY});
        const RunResult ddp = run_local(job, num_ranks);
        EXPECT_LT(ddp.steps.back().loss, ddp.steps.front().loss);
        EXPECT_EQ(first_difference(ddp, run_local(in_place, num_ranks, comm)), "") << num_ranks << comm << every;
      }
}

}  // namespace
}  // namespace tessera::testing
