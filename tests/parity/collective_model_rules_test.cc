// The rules of verify/model for collectives and messages, and programs that they must accept.
#include "model_rule.h"

namespace tessera::testing {
namespace {

/// The sum of an accumulator on a stream.
Action& sum_of(Program& p, std::string_view accumulator, std::string_view stream = "comm.") {
  for (Action& action : p.actions)
    if (is_collective(action.kind) && p.buffer(action.bindings[0].buffer).name == accumulator &&
        p.streams[action.stream].name.starts_with(stream))
      return action;
  ADD_FAILURE() << "no sum of " << accumulator;
  return p.actions.front();
}
Action& loss_sum(Program& p, std::string_view stream = "comm.") {
  return sum_of(p, kLossAccumulator, stream);
}

/// Broadcasts what the action has left in that slot, in place, from the first rank of the first axis.
Action& broadcast_after(Program& p, uint32_t kind, std::string_view object, uint32_t slot) {
  const size_t i = index_of(p, kind, object, 0);
  const Binding range = binding_of(p.actions[i], slot);
  const auto sum = std::ranges::find(p.actions, uint32_t{TSR_ACTION_ALL_REDUCE}, &Action::kind);
  insert_broadcast(p, i + 1, Action(*sum), range);
  p.actions[i + 1].group = p.group({0, {}});
  p.actions[i + 1].stream = p.comm_stream(0, "test");
  return p.actions[i + 1];
}

/// Averages it over the first axis, in place.
void average_after(Program& p, uint32_t kind, std::string_view object, uint32_t slot) {
  Action& average = broadcast_after(p, kind, object, slot);
  average.kind = TSR_ACTION_ALL_REDUCE;
  average.reduce = TSR_REDUCE_AVG;
  average.peer = -1;
}

/// Scales what rank 0 gives to the first sum for rank 1.
void scale_before_reduce(Program& p, double scale) {
  for (size_t i = 0; i < p.actions.size(); ++i)
    if (p.actions[i].kind == TSR_ACTION_REDUCE && p.actions[i].peer == 1)
      return insert_elementwise(p, i, TSR_ACTION_SCALE, p.actions[i].bindings[0], scale);
}

const Fault kCollectiveFaults[] = {
    {"squares_of_a_home_missing", "ddp", 0, [](Program& p) { remove(p, TSR_ACTION_SUM_SQUARES, kWeight); },
     "comm.world.scalars all_reduce squares sums the squares of 27 of 28 homes"},
    {"loss_not_summed", "all", 0, [](Program& p) { loss_sum(p, "comm.dp.").reduce = TSR_REDUCE_MAX; },
     "all_reduce loss reduces the loss by something other than a sum"},
    {"loss_summed_twice", "all", 0,
     [](Program& p) {
       Action again = loss_sum(p, "comm.dp.");
       again.id = p.next_id++;
       const size_t i = static_cast<size_t>(&loss_sum(p, "comm.dp.") - p.actions.data());
       p.actions.insert(p.actions.begin() + static_cast<ptrdiff_t>(i), std::move(again));
     },
     "all_reduce loss sums the loss over the same tokens twice"},
    {"gradient_scaled_on_one_of_its_ranks", "zero3", 0, [](Program& p) { scale_before_reduce(p, 0.5); },
     ", scaled by 0.5 on one rank and the gradient of "},
    {"gradient_scaled_a_little_on_one_of_its_ranks", "zero3", 0, [](Program& p) { scale_before_reduce(p, 0.999); },
     ", scaled by 0.999 on one rank and the gradient of "},
    {"gradients_exchanged_on_the_slice_of_another_rank", "fsdp", 0,
     [](Program& p) {
       Action& backward = action_of(p, TSR_ACTION_BACKWARD, "ln_f", 0);
       std::swap(binding_of(backward, kWeightGradient).offset, binding_of(backward, kBiasGradient).offset);
     },
     "which holds the gradient of ln_f.weight; the model needs the gradient of ln_f.bias"},
    {"value_of_other_tokens", "ddp", 0,
     [](Program& p) {
       const size_t i = index_of(p, TSR_ACTION_FORWARD, "h.0.qkv", 0);
       const Binding qkv = binding_of(p.actions[i], TSR_SLOT(TSR_ROLE_OUTPUT, 0));
       const auto sum = std::ranges::find(p.actions, uint32_t{TSR_ACTION_ALL_REDUCE}, &Action::kind);
       insert_broadcast(p, i + 1, Action(*sum), qkv);
     },
     "compute forward h.0.attention mb=0 takes i0 (h.0.qkv) = activation h.0.qkv mb=0, which holds nothing that the "
     "model "
     "names; the model needs h.0.qkv mb=0"},
    {"tokens_of_another_rank", "ddp", 0,
     [](Program& p) {
       const Binding tokens{p.inputs.front().buffer, 0, p.buffer(p.inputs.front().buffer).num_elements, 0, 0};
       const auto sum = std::ranges::find(p.actions, uint32_t{TSR_ACTION_ALL_REDUCE}, &Action::kind);
       insert_broadcast(p, 0, Action(*sum), tokens);
     },
     "which holds nothing that the model names; the model needs tokens mb=0"},
    {"value_of_the_first_of_many_ranks", "ddp_of_twenty", 0,
     [](Program& p) { broadcast_after(p, TSR_ACTION_FORWARD, "h.0.qkv", kOutput); },
     "takes i0 (h.0.qkv) = activation h.0.qkv mb=0, which holds nothing that the model names"},
    {"saved_averaged_over_many_ranks", "ddp_of_twenty", 0,
     [](Program& p) { average_after(p, TSR_ACTION_FORWARD, "h.0.attention", kSaved); },
     "takes s0 = saved h.0.attention mb=0, which holds nothing that the model names"},
    {"saved_of_another_part_of_the_heads", "rows", kEveryClass,
     [](Program& p) {
       Action& broadcast = broadcast_after(p, TSR_ACTION_FORWARD, "h.0.attention", kSaved);
       broadcast.group = p.group({1, {}});
       broadcast.stream = p.comm_stream(1, "test");
     },
     "takes s0 = saved h.0.attention mb=0, which holds nothing that the model names"},
    {"squares_of_another_replica", "local_sgd", kEveryClass,
     [](Program& p) {
       const Binding squares{sum_of(p, kSquaresAccumulator).bindings.front().buffer, 1, TSR_ACCUMULATOR_LIMBS - 1, 0,
                             0};
       const size_t i = index_of(p, TSR_ACTION_CLIP, "squares");
       insert_broadcast(p, i, Action(loss_sum(p)), squares);
       p.actions[i].group = p.group({0, {}});
       p.actions[i].stream = p.comm_stream(0, "test");
     },
     "clip squares takes "},
    {"gradient_averaged_over_three", "ddp_of_three", kEveryClass,
     [](Program& p) {
       for (size_t i = 0; i < p.actions.size(); ++i)
         if (p.streams[p.actions[i].stream].name == "comm.dp.gradient") {
           p.actions[i].reduce = TSR_REDUCE_AVG;
           insert_elementwise(p, i + 1, TSR_ACTION_SCALE, Binding(*p.actions[i].find(kDestination)), 3);
         }
     },
     " over 3 ranks, which rounds; sum gradients, and average only parameters that diverge"},
    {"heads_of_another_part", "ring", kEveryClass,
     [](Program& p) {
       Binding& heads = binding_of(action_of(p, TSR_ACTION_FORWARD, "h.0.proj", 0), kInput);
       heads.buffer = buffer_of(p, "activation received");
       heads.offset = 0;
     },
     "takes i0 (h.0.attended) = activation received, which holds nothing that the model names"},
    {"slices_that_are_not_received", "ddp_of_four", 0,
     [](Program& p) {
       // The gather before it has counts too, and could be matched by looking at one rank.
       Buffer buffer{0, "made", TSR_BUFFER_STAGING};
       buffer.num_elements = 8;
       const uint64_t from = p.add_buffer(buffer), to = p.add_buffer(buffer);
       const auto insert_first = [&](uint32_t kind, std::vector<Binding> bindings, std::vector<uint64_t> counts) {
         Action action;
         action.id = p.next_id++;
         action.kind = kind;
         action.bindings = std::move(bindings);
         action.counts = std::move(counts);
         if (is_collective(kind)) action.stream = p.comm_stream(0, "test"), action.group = p.group({0, {}});
         p.actions.insert(p.actions.begin(), std::move(action));
       };
       insert_first(TSR_ACTION_ALL_TO_ALL,
                    {{from, 0, 8, kSource, TSR_MODE_READ}, {to, 0, 8, kDestination, TSR_MODE_WRITE}},
                    {1, 2, 2, 3, 1, 2, 2, 3});
       insert_first(TSR_ACTION_ALL_GATHER, {{from, 0, 8, kDestination, TSR_MODE_ADD}}, {2, 2, 2, 2});
       insert_first(TSR_ACTION_ZERO, {{from, 0, 8, kDestination, TSR_MODE_WRITE}}, {});
     },
     "all_to_all made (sends 2) meets "},
    {"loss_scattered", "ddp", 0, [](Program& p) { loss_sum(p).kind = TSR_ACTION_REDUCE_SCATTER; },
     "leaves each rank with a part of the loss, of which all need the whole"},
    {"squares_scattered", "ddp", 0, [](Program& p) { sum_of(p, kSquaresAccumulator).kind = TSR_ACTION_REDUCE_SCATTER; },
     "leaves each rank with a part of the sum of squares, of which all need the whole"},
    // Rank 0, which is walked for all, gets its own.
    {"slices_of_two_other_ranks_exchanged", "fsdp_of_twenty", kEveryClass,
     [](Program& p) {
       const auto scatter = std::ranges::find_if(p.actions, [](const Action& action) {
         return action.kind == TSR_ACTION_REDUCE_SCATTER && action.find(kSource)->num_elements > 10'000;  // of a block
       });
       const auto at = static_cast<size_t>(scatter - p.actions.begin());
       Binding& source = binding_of(*scatter, kSource);
       const Binding whole = source;
       Buffer copy = p.buffer(whole.buffer);
       copy.id = 0;
       copy.name = "exchanged";
       copy.kind = TSR_BUFFER_STAGING;
       copy.num_elements = whole.num_elements;
       source.buffer = p.add_buffer(copy);
       source.offset = 0;
       const uint64_t to = source.buffer, n = whole.num_elements / 20;
       const auto move = [&](uint64_t from, uint64_t into, uint64_t num_slices) {
         insert_copy(p, at, {whole.buffer, whole.offset + from * n, num_slices * n, 0, 0},
                     {to, into * n, num_slices * n, 0, 0});
       };
       move(0, 0, 1);
       move(1, 2, 1);
       move(2, 1, 1);
       move(3, 3, 17);
     },
     "gives rank 2 another slice than it owns, if rank 0 gets its own"},
    // Rank 0, which is walked for all, keeps nothing of it.
    {"slice_of_another_rank_without_a_gradient", "fsdp_of_twenty", kEveryClass,
     [](Program& p) {
       const size_t i = index_of(p, TSR_ACTION_BACKWARD, "h.0.add_ln_2", 0);
       Binding& bias = binding_of(p.actions[i], kWeightGradient);
       const Binding range = bias;
       Buffer lost{0, "lost", TSR_BUFFER_STAGING};
       lost.num_elements = range.num_elements;
       bias.buffer = p.add_buffer(lost);
       bias.offset = 0;
       insert_elementwise(p, i, TSR_ACTION_ZERO, range);
     },
     "gives rank 6 another slice than it owns"},
    // Squares are of the whole range of a home.
    {"gradient_in_padding", "fsdp", kEveryClass,
     [](Program& p) {
       for (size_t i = 0; i < p.actions.size(); ++i)
         if (p.actions[i].kind == TSR_ACTION_ZERO && p.buffer(p.actions[i].bindings[0].buffer).name == "h.0") {
           Binding& pad = p.actions[i].bindings[0];
           const Binding before{pad.buffer, 0, pad.offset, 0, 0}, first{pad.buffer, pad.offset, pad.offset, 0, 0};
           pad.offset += first.num_elements;
           pad.num_elements -= first.num_elements;
           return insert_copy(p, i, before, first);
         }
       ADD_FAILURE() << "no padding";
     },
     "which is padding of the home; zeros are needed there"},
    {"maximum_of_one_part", "tensor", kEveryClass,
     [](Program& p) {
       Action& maximum = action_of(p, TSR_ACTION_ALL_REDUCE, "logits.max mb=0");
       maximum.kind = TSR_ACTION_BROADCAST;
       maximum.reduce = 0;
       maximum.peer = 0;
     },
     "which is a minimum or maximum of one part of tp: it must be reduced before it is broadcast"},
    {"value_averaged", "tensor", 0,
     [](Program& p) { action_of(p, TSR_ACTION_ALL_REDUCE, "h.0.projected mb=0").reduce = TSR_REDUCE_AVG; },
     "reduces h.0.projected mb=0, which only a sum over an axis that splits tensors completes"},
};
INSTANTIATE_TEST_SUITE_P(Collective, ModelRule, ::testing::ValuesIn(kCollectiveFaults), name_of);

/// What is right in another way than the plugins of this repository write it.
const Fault kLegal[] = {
    {"group_that_lists_all_ranks", "ddp", 0,
     [](Program& p) {
       const int listed = p.group({0, {0, 1}});
       for (Action& action : p.actions)
         if (p.streams[action.stream].name == "comm.dp.gradient") action.group = listed;
     },
     ""},
    {"average_of_what_all_ranks_have", "tensor", kEveryClass,
     [](Program& p) { average_after(p, TSR_ACTION_BACKWARD, "ln_f", kWeightGradient); }, ""},
    {"sums_over_two_axes_in_bf16", "ddp_twice_in_bf16", kEveryClass, [](Program&) {}, ""},
    {"call_between_two_addends", "ddp", kEveryClass,
     [](Program& p) {
       const size_t i = index_of(p, TSR_ACTION_BACKWARD, "wte", 0);
       insert_call(p, i, Binding(binding_of(p.actions[i], kWeightGradient)));
       p.actions[i].reduce = TSR_REDUCE_SUM;
     },
     ""},
};

// The stage in the middle has no part of the embedding, which the others share.
TEST(Stages, ThatLackAParameterOfTwoOthersAreRight) {
  const MutationJob three({"--model=" + source_dir("tests/golden/programs/two-blocks"), "--batch-size=1", "--seq-len=8",
                           "--mesh=pp=3", "--strategy=pp=pipeline", "--grad-accum=2"},
                          3);
  EXPECT_EQ(three.findings(kEveryClass, kUnchanged), Diagnostics{});
}

// Each has a communicator of its own.
TEST(Groups, OfTheSameRanksUnderTwoNamesRun) {
  const auto list_every_second = [](Program& p) {
    const int listed = p.group({0, {0, 1}});
    bool is_second = false;
    for (Action& action : p.actions)
      if (p.streams[action.stream].name == "comm.dp.gradient")
        action.group = std::exchange(is_second, !is_second) ? listed : action.group;
  };
  const MutationJob& buckets = job("ddp_in_buckets");
  EXPECT_EQ(buckets.run(kEveryClass, list_every_second), buckets.run(kEveryClass, [](Program&) {}));
}

class ModelLegal : public ::testing::TestWithParam<Fault> {};

TEST_P(ModelLegal, IsAccepted) {
  EXPECT_TRUE(is_clean(job(GetParam().job).findings(GetParam().rank, GetParam().make)));
}
INSTANTIATE_TEST_SUITE_P(Programs, ModelLegal, ::testing::ValuesIn(kLegal), name_of);

TEST(ModelRulePlacement, OfAPartialSumThatIsBroadcastOverAnotherAxis) {
  const auto broadcast = [](Program& p) {
    Action& action = broadcast_after(p, TSR_ACTION_BACKWARD, "h.0.qkv", kWeightGradient);
    action.group = p.group({1, {}});
    action.stream = p.comm_stream(1, "test");
  };
  EXPECT_TRUE(has_diagnostic(job("rows").findings(kEveryClass, broadcast),
                             "which is an unreduced partial sum over dp: the others would take what is of a part"));
}

}  // namespace
}  // namespace tessera::testing
