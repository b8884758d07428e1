// What a communicator claims, and the limit of the workspace that it may ask for.
#include <gtest/gtest.h>

#include "program/claims.h"
#include "support/expect_error.h"
#include "support/program_builder.h"

namespace tessera::testing {
using namespace host;
namespace {

CommunicatorClaims claims_of(uint64_t collectives, uint64_t reduces, std::vector<tsr_dtype> dtypes) {
  return {"test", 0, collectives, reduces, std::move(dtypes)};
}

TEST(CommunicatorClaims, SumsOfFloat32NeedKindReductionAndDtype) {
  constexpr uint64_t kAllReduce = 1 << TSR_COLL_ALL_REDUCE, kAllGather = 1 << TSR_COLL_ALL_GATHER,
                     kSum = 1 << TSR_REDUCE_SUM, kMax = 1 << TSR_REDUCE_MAX;
  EXPECT_TRUE(claims_of(kAllReduce | kAllGather, kSum | kMax, {TSR_I32, TSR_F32}).sums_float32());
  EXPECT_FALSE(claims_of(kAllGather, kSum, {TSR_F32}).sums_float32());
  EXPECT_FALSE(claims_of(kAllReduce, kMax, {TSR_F32}).sums_float32());
  EXPECT_FALSE(claims_of(kAllReduce, kSum, {TSR_I32}).sums_float32());
}

uint64_t workspace_bytes = 0;  // of each collective of the communicator below

tsr_status describe(const tsr_collective*, int32_t, uint64_t* num_bytes, tsr_error*) noexcept {
  *num_bytes = workspace_bytes;
  return TSR_OK;
}

/// 1 GiB, and 16 times what all ranks have together.
TEST(CommunicatorClaims, TheLimitOfAWorkspaceCountsSlicesOfAllLengths) {
  const Model model = toy_model();
  const Mesh mesh({{"dp", 2}});
  Program p = empty_program(model, mesh);
  const uint64_t all = transient(p, "all", 1 << 20);
  Action& gather = add_action(p, TSR_ACTION_ALL_GATHER, p.comm_stream(0, "test"), {add(all)});
  gather.group = p.group({0, {}});
  gather.counts = {1 << 20, 0};
  tsr_communicator_interface communicator{};
  communicator.struct_size = sizeof communicator;
  communicator.describe = &describe;
  const DescribeCollective ask = describe_with(&communicator, claims_of(1 << TSR_COLL_ALL_GATHER, 0, {TSR_F32}));
  constexpr uint64_t kAtLeast = (uint64_t{1} << 30) + 16 * 2 * sizeof(float) * (1 << 20);
  workspace_bytes = kAtLeast;
  EXPECT_EQ(ask(p, gather, 2), kAtLeast);
  workspace_bytes = 2 * kAtLeast;
  expect_error([&] { ask(p, gather, 2); }, {"bytes of workspace for all_gather", "over 2 ranks; the limit is "});
}

}  // namespace
}  // namespace tessera::testing
