// The sums that ddp inserts.
#include <gtest/gtest.h>

#include <set>

#include "support/gpt2_ddp.h"

namespace tessera::testing {
namespace {

std::set<int> micro_batches_of_sums(uint32_t reduce_every) {
  std::set<int> micro_batches;
  for (const Action& action : Gpt2Ddp(2, reduce_every).lowered(0).actions)
    if (action.kind == TSR_ACTION_ALL_REDUCE) micro_batches.insert(action.micro_batch);
  return micro_batches;
}

TEST(DdpPass, ASumIsOfTheStepOrOfAMicroBatch) {
  EXPECT_EQ(micro_batches_of_sums(TSR_EVERY_STEP), std::set{-1});
  EXPECT_EQ(micro_batches_of_sums(TSR_EVERY_MICRO_BATCH), (std::set{0, 1}));
}

}  // namespace
}  // namespace tessera::testing
