// The form of collectives: one broken program for each rule, and every collective in every form.
#include <gtest/gtest.h>

#include "support/expect_diagnostic.h"
#include "unit/rank_fault.h"

namespace tessera::testing {
namespace {

/// A collective of the dp axis over made buffers.
Action& collective(Program& p, uint32_t kind, const std::vector<Use>& uses, uint32_t reduce = 0, int peer = -1) {
  Action& action = add_action(p, kind, p.comm_stream(0, "test"), uses);
  action.group = p.group({0, {}});
  action.reduce = reduce;
  action.peer = peer;
  return action;
}
uint64_t made(Program& p, uint64_t num_elements, tsr_dtype dtype = TSR_F32) {
  return transient(p, "made", num_elements, TSR_BUFFER_STAGING, dtype);
}

const Fault kCollectiveFaults[] = {
    {"slot",
     [](Program& p) { collective(p, TSR_ACTION_ALL_REDUCE, {add(made(p, 4), TSR_SLOT(TSR_ROLE_STATE, 0))}, 1); },
     "binds st0; a collective has src, dst and w"},
    {"second_destination",
     [](Program& p) {
       collective(p, TSR_ACTION_ALL_REDUCE, {add(made(p, 4)), add(made(p, 4), kDst + 1)}, 1);
     },
     "binds dst1; only exchange has more than one"},
    {"second_workspace",
     [](Program& p) {
       collective(p, TSR_ACTION_ALL_REDUCE, {add(made(p, 4)), write(made(p, 4), TSR_SLOT(TSR_ROLE_WORKSPACE, 1))}, 1);
     },
     "binds w1; its workspace is w0, which it writes"},
    {"written_source", [](Program& p) { collective(p, TSR_ACTION_ALL_REDUCE, {add(made(p, 4), kSrc)}, 1); },
     "binds src0 with a mode that does not fit"},
    {"root", [](Program& p) { collective(p, TSR_ACTION_BROADCAST, {add(made(p, 4))}, 0, 2); },
     "names root 2; its group has 2 ranks"},
    {"to_itself", [](Program& p) { collective(p, TSR_ACTION_SEND, {read(made(p, 4))}, 0, 0); },
     "is a message to itself"},
    {"peer_of_all", [](Program& p) { sum(p).peer = 1; }, "names a peer; its kind has none"},
    {"no_reduction", [](Program& p) { sum(p).reduce = 0; }, "has the reduction 0; 1 to 4 are sum, avg, min, max"},
    {"reduction_of_gather",
     [](Program& p) {
       collective(p, TSR_ACTION_ALL_GATHER, {read(made(p, 4)), write(made(p, 8))}, 1);
     },
     "has the reduction 1; it reduces nothing"},
    {"counts",
     [](Program& p) {
       collective(p, TSR_ACTION_ALL_GATHER, {read(made(p, 4)), write(made(p, 8))}).counts = {8};
     },
     "has 1 counts; it takes 2, one per member"},
    {"counts_of_sum",
     [](Program& p) {
       sum(p).counts = {1, 1};
     },
     "has 2 counts; it takes none"},
    {"peers_of_sum", [](Program& p) { sum(p).peers = {1}; }, "lists peers; only exchange does"},
    {"barrier_with_buffer", [](Program& p) { collective(p, TSR_ACTION_BARRIER, {add(made(p, 4))}); },
     "binds buffers; a barrier has none"},
    {"sum_without_destination", [](Program& p) { collective(p, TSR_ACTION_ALL_REDUCE, {read(made(p, 4))}, 1); },
     "needs src and a dst to write, or in place dst with mode add"},
    {"sum_without_operands", [](Program& p) { collective(p, TSR_ACTION_ALL_REDUCE, {}, 1); },
     "needs src and a dst to write, or in place dst with mode add"},
    {"sum_in_place_with_write", [](Program& p) { collective(p, TSR_ACTION_ALL_REDUCE, {write(made(p, 4))}, 1); },
     "needs src and a dst to write, or in place dst with mode add"},
    {"recv_with_source",
     [](Program& p) {
       collective(p, TSR_ACTION_RECV, {read(made(p, 4)), write(made(p, 4))}, 0, 1);
     },
     "needs a dst to write and nothing else"},
    {"send_with_destination",
     [](Program& p) {
       collective(p, TSR_ACTION_SEND, {read(made(p, 4)), write(made(p, 4))}, 0, 1);
     },
     "needs a src and nothing else"},
    {"receive_that_adds", [](Program& p) { collective(p, TSR_ACTION_RECV, {add(made(p, 4))}, 0, 1); },
     "needs a dst to write and nothing else"},
    {"broadcast_source_off_root",
     [](Program& p) {
       collective(p, TSR_ACTION_BROADCAST, {read(made(p, 4)), write(made(p, 4))}, 0, 1);
     },
     "needs off the root a dst and nothing else"},
    {"broadcast_root_without_source",
     [](Program& p) { collective(p, TSR_ACTION_BROADCAST, {write(made(p, 4))}, 0, 0); },
     "needs on the root src and dst"},
    {"reduce_destination_off_root",
     [](Program& p) {
       collective(p, TSR_ACTION_REDUCE, {read(made(p, 4)), write(made(p, 4))}, 1, 1);
     },
     "needs off the root a src and nothing else"},
    {"all_to_all_with_one_count_per_member",
     [](Program& p) {
       collective(p, TSR_ACTION_ALL_TO_ALL, {read(made(p, 8)), write(made(p, 8))}).counts = {3, 5};
     },
     "has 2 counts; it takes 4: what is sent, then what is received"},
    {"all_to_all_sends_more",
     [](Program& p) {
       collective(p, TSR_ACTION_ALL_TO_ALL, {read(made(p, 8)), write(made(p, 7))}).counts = {3, 6, 3, 4};
     },
     "has counts that add up to 9, and binds 8 elements"},
    {"all_to_all_receives_less",
     [](Program& p) {
       collective(p, TSR_ACTION_ALL_TO_ALL, {read(made(p, 8)), write(made(p, 7))}).counts = {3, 5, 2, 4};
     },
     "receives 6 elements by its counts, and writes 7"},
    {"all_to_all_in_place", [](Program& p) { collective(p, TSR_ACTION_ALL_TO_ALL, {add(made(p, 4))}); },
     "it is never in place"},
    {"dtypes",
     [](Program& p) {
       collective(p, TSR_ACTION_ALL_REDUCE, {read(made(p, 4)), write(made(p, 4, TSR_F64))}, 1);
     },
     "reads f32 and writes f64"},
    {"average_of_integers", [](Program& p) { collective(p, TSR_ACTION_ALL_REDUCE, {add(made(p, 4, TSR_I64))}, 2); },
     "averages i64; only floating-point types can be averaged"},
    {"sizes",
     [](Program& p) {
       collective(p, TSR_ACTION_ALL_REDUCE, {read(made(p, 4)), write(made(p, 5))}, 1);
     },
     "reads 4 elements and writes 5"},
    {"uneven",
     [](Program& p) {
       collective(p, TSR_ACTION_REDUCE_SCATTER, {read(made(p, 5)), write(made(p, 2))}, 1);
     },
     "cuts 5 elements into 2 equal slices"},
    {"counts_sum",
     [](Program& p) {
       collective(p, TSR_ACTION_REDUCE_SCATTER, {read(made(p, 5)), write(made(p, 2))}, 1).counts = {2, 2};
     },
     "has counts that add up to 4, and binds 5 elements"},
    {"counts_that_wrap",
     [](Program& p) {
       collective(p, TSR_ACTION_ALL_GATHER, {add(made(p, 5))}).counts = {6, UINT64_MAX};
     },
     "has a count of 6, and binds 5 elements"},
    {"received_counts_that_wrap",
     [](Program& p) {
       collective(p, TSR_ACTION_ALL_TO_ALL, {read(made(p, 8)), write(made(p, 7))}).counts = {3, 5, UINT64_MAX, 8};
     },
     "has a count of 18446744073709551615, and binds 7 elements"},
    {"slice",
     [](Program& p) {
       collective(p, TSR_ACTION_ALL_GATHER, {read(made(p, 3)), write(made(p, 8))});
     },
     "binds 3 elements as its slice, which has 4 of 8"},
    {"overlap",
     [](Program& p) {
       const uint64_t x = made(p, 8);
       collective(p, TSR_ACTION_ALL_GATHER, {read(x).at(4, 4), write(x)});
     },
     "has src and dst that overlap in staging made without being in place"},
    {"overlap_by_one",
     [](Program& p) {
       const uint64_t x = made(p, 15);
       collective(p, TSR_ACTION_ALL_REDUCE, {read(x).at(0, 8), write(x).at(7, 8)}, 1);
     },
     "has src and dst that overlap in staging made without being in place"},
    {"overlap_by_one_before",
     [](Program& p) {
       const uint64_t x = made(p, 15);
       collective(p, TSR_ACTION_ALL_REDUCE, {read(x).at(7, 8), write(x).at(0, 8)}, 1);
     },
     "has src and dst that overlap in staging made without being in place"},
    {"all_to_all_onto_itself",
     [](Program& p) {
       const uint64_t x = made(p, 8);
       collective(p, TSR_ACTION_ALL_TO_ALL, {read(x), write(x)});
     },
     "has src and dst that overlap in staging made without being in place"},
    {"exchange_peers",
     [](Program& p) {
       collective(p, TSR_ACTION_EXCHANGE, {read(made(p, 4)), write(made(p, 4))}).peers = {1};
     },
     "lists 1 peers for 2 messages"},
    {"exchange_overlap",
     [](Program& p) {
       const uint64_t x = made(p, 4);
       collective(p, TSR_ACTION_EXCHANGE, {read(x), write(x)}).peers = {1, 1};
     },
     "binds dst0 to staging made, and src0 too; what is received has a range of its own"},
    {"exchange_that_adds",
     [](Program& p) {
       collective(p, TSR_ACTION_EXCHANGE, {read(made(p, 4)), add(made(p, 4))}).peers = {1, 1};
     },
     "binds dst0 with mode add; a message is written"},
    {"exchange_with_itself", [](Program& p) { collective(p, TSR_ACTION_EXCHANGE, {read(made(p, 4))}).peers = {0}; },
     "names peer 0; its group has 2 ranks, and it is 0"},
    {"exchange_gap", [](Program& p) { collective(p, TSR_ACTION_EXCHANGE, {read(made(p, 4), kSrc + 1)}).peers = {1}; },
     "binds src and dst with gaps in their numbers"},
};
INSTANTIATE_TEST_SUITE_P(Collectives, RankForm, ::testing::ValuesIn(kCollectiveFaults), name_of);

TEST(RankFormClean, EveryCollectiveInEveryForm) {
  const Model model = toy_model();
  const Mesh mesh({{"dp", 2}});
  Program p = empty_program(model, mesh, {1});
  const uint64_t x = persistent(p, "x", 8, TSR_BUFFER_PLUGIN), half = persistent(p, "half", 4, TSR_BUFFER_PLUGIN);
  const uint64_t y = persistent(p, "y", 8, TSR_BUFFER_PLUGIN);
  collective(p, TSR_ACTION_ALL_REDUCE, {add(x)}, TSR_REDUCE_SUM);
  collective(p, TSR_ACTION_ALL_REDUCE, {read(x), write(y)}, TSR_REDUCE_AVG);
  collective(p, TSR_ACTION_ALL_REDUCE, {read(x).at(0, 4), write(x).at(4, 4)}, TSR_REDUCE_SUM);
  collective(p, TSR_ACTION_ALL_REDUCE, {read(x).at(4, 4), write(x).at(0, 4)}, TSR_REDUCE_SUM);
  collective(p, TSR_ACTION_REDUCE_SCATTER, {read(x), write(half)}, TSR_REDUCE_SUM);
  collective(p, TSR_ACTION_REDUCE_SCATTER, {read(x), write(x).at(4, 4)}, TSR_REDUCE_SUM);
  collective(p, TSR_ACTION_REDUCE_SCATTER, {read(x), write(half).at(0, 3)}, TSR_REDUCE_SUM).counts = {5, 3};
  collective(p, TSR_ACTION_ALL_GATHER, {read(half), write(x)});
  collective(p, TSR_ACTION_ALL_GATHER, {read(x).at(4, 4), write(x)});
  collective(p, TSR_ACTION_ALL_GATHER, {add(x)});
  collective(p, TSR_ACTION_ALL_GATHER, {read(half).at(0, 0), write(x)}).counts = {8, 0};
  collective(p, TSR_ACTION_BROADCAST, {add(x)}, 0, 0);
  collective(p, TSR_ACTION_BROADCAST, {write(x)}, 0, 0);
  collective(p, TSR_ACTION_BROADCAST, {read(x), write(y)}, 0, 1);
  collective(p, TSR_ACTION_REDUCE, {read(x)}, TSR_REDUCE_SUM, 0);
  collective(p, TSR_ACTION_REDUCE, {add(x)}, TSR_REDUCE_SUM, 1);
  collective(p, TSR_ACTION_REDUCE, {read(x), write(y)}, TSR_REDUCE_SUM, 1);
  collective(p, TSR_ACTION_ALL_TO_ALL, {read(x), write(y)});
  collective(p, TSR_ACTION_ALL_TO_ALL, {read(half), write(y)}).counts = {1, 3, 8, 0};
  collective(p, TSR_ACTION_SEND, {read(x)}, 0, 0).tag = 4;
  collective(p, TSR_ACTION_RECV, {write(x)}, 0, 0);
  collective(p, TSR_ACTION_EXCHANGE, {read(x), write(y)}).peers = {0, 0};
  const uint64_t workspace = transient(p, "workspace", 8, TSR_BUFFER_WORKSPACE);
  collective(p, TSR_ACTION_EXCHANGE, {read(x), write(y), write(workspace, TSR_SLOT(TSR_ROLE_WORKSPACE, 0))}).peers = {
      0, 0};
  collective(p, TSR_ACTION_BARRIER, {});
  derive_dependencies(p);
  EXPECT_TRUE(is_clean(verify_rank(p)));
}

}  // namespace
}  // namespace tessera::testing
