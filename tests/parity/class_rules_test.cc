// One rank is walked for all with its program: what it gets must be right for each of them. And what replicas may do to
// one another, and in which order gradients are summed and rounded.
#include "model_rule.h"
#include "program/buffer_index.h"

namespace tessera::testing {
namespace {

/// A buffer beside `range`, of so many elements.
Binding staging_beside(Program& p, const Binding& range, uint64_t num_elements) {
  Buffer buffer = p.buffer(range.buffer);
  buffer.id = 0;
  buffer.name = "test";
  buffer.kind = TSR_BUFFER_STAGING;
  buffer.persistent = false;
  buffer.num_elements = num_elements;
  return {p.add_buffer(buffer), 0, num_elements, 0, 0};
}

Action collective(Program& p, uint32_t kind, int axis, std::vector<Binding> bindings) {
  Action action;
  action.id = p.next_id++;
  action.kind = kind;
  action.stream = p.comm_stream(axis, "test");
  action.group = p.group({axis, {}});
  action.bindings = std::move(bindings);
  return action;
}
Binding bound(Binding range, uint32_t slot, uint32_t mode) {
  range.slot = slot;
  range.mode = mode;
  return range;
}
void insert_at(Program& p, size_t i, Action action) {
  p.actions.insert(p.actions.begin() + static_cast<ptrdiff_t>(i), std::move(action));
}
Binding part_of(const Binding& range, uint64_t offset, uint64_t num_elements) {
  return {range.buffer, range.offset + offset, num_elements, 0, 0};
}

/// Gathers the range over the first axis before action i. Returns what all ranks then have.
Binding insert_gather(Program& p, size_t i, const Binding& range) {
  const auto n = static_cast<uint64_t>(p.mesh->axes()[0].num_ranks);
  const Binding all = staging_beside(p, range, range.num_elements * n);
  insert_at(p, i,
            collective(p, TSR_ACTION_ALL_GATHER, 0,
                       {bound(range, kSource, TSR_MODE_READ), bound(all, kDestination, TSR_MODE_WRITE)}));
  return all;
}

/// The first operand of an action is position 0 of a gather of it.
void take_first_gathered(Program& p, uint32_t kind, std::string_view object) {
  const size_t i = index_of(p, kind, object, 0);
  const Binding own = binding_of(p.actions[i], kInput);
  const Binding all = insert_gather(p, i, own);
  Binding& operand = binding_of(p.actions[i + 1], kInput);
  operand.buffer = all.buffer;
  operand.offset = 0;
}

size_t index_of_scatter(const Program& p) {
  const auto found = std::ranges::find_if(p.actions, [](const Action& action) {
    return action.kind == TSR_ACTION_REDUCE_SCATTER && action.find(kSource)->num_elements > 10'000;  // of a block
  });
  return static_cast<size_t>(found - p.actions.begin());
}

/// The squares of a block are of other elements, of as many.
void square(Program& p, const Binding& range) {
  Binding& source = binding_of(action_of(p, TSR_ACTION_SUM_SQUARES, "h.1"), kSource);
  source.buffer = range.buffer;
  source.offset = range.offset;
}

/// Each rank squares what the rank at `position` has got of a sum that is scattered.
void take_slice_of(Program& p, uint64_t position) {
  const size_t i = index_of_scatter(p);
  const Binding slice = *p.actions[i].find(kDestination);
  square(p, part_of(insert_gather(p, i + 1, slice), position * slice.num_elements, slice.num_elements));
}

/// All ranks get, beside an element that rank 0 keeps, its slice of a sum, and square that.
void take_slice_beside_kept(Program& p) {
  const size_t i = index_of_scatter(p);
  const Action scatter = p.actions[i];
  const Binding slice = *scatter.find(kDestination), kept = part_of(whole(p, "home h.1"), 0, 1);
  const Binding both = staging_beside(p, slice, slice.num_elements + 1);
  insert_broadcast(p, i + 1, scatter, both);
  insert_copy(p, i + 1, kept, part_of(both, slice.num_elements, 1));
  insert_copy(p, i + 1, slice, part_of(both, 0, slice.num_elements));
  square(p, both);
}

/// Beside its slice each rank gets the whole sum, of which it squares the first slice.
void take_first_slice_of_sum(Program& p) {
  const size_t i = index_of_scatter(p);
  const Binding from = *p.actions[i].find(kSource);
  const Binding copy = staging_beside(p, from, from.num_elements);
  Action sum = collective(p, TSR_ACTION_ALL_REDUCE, 0, {bound(copy, kDestination, TSR_MODE_ADD)});
  sum.reduce = TSR_REDUCE_SUM;
  insert_at(p, i, std::move(sum));
  insert_copy(p, i, from, copy);
  square(p, copy);
}

/// What rank 0 keeps of a unit is put to all positions of a buffer that is then gathered in place.
void gather_slices_of_the_first(Program& p) {
  const auto gather = std::ranges::find(p.actions, uint32_t{TSR_ACTION_ALL_GATHER}, &Action::kind);
  const auto i = static_cast<size_t>(gather - p.actions.begin());
  const Binding slice = *gather->find(kSource), all = *gather->find(kDestination);
  const Binding copy = staging_beside(p, slice, slice.num_elements);
  p.actions[i].bindings = {bound(all, kDestination, TSR_MODE_ADD)};
  const Action like = p.actions[i];
  for (uint64_t begin = 0; begin < all.num_elements; begin += slice.num_elements)
    insert_copy(p, i, copy, part_of(all, begin, slice.num_elements));
  insert_broadcast(p, i, like, copy);
  insert_copy(p, i, slice, copy);
}

/// Both tensor ranks get the first half of the rows.
void scatter_first_rows_twice(Program& p) {
  const auto scatter = std::ranges::find(p.actions, uint32_t{TSR_ACTION_REDUCE_SCATTER}, &Action::kind);
  const auto i = static_cast<size_t>(scatter - p.actions.begin());
  const Binding rows = *scatter->find(kSource);
  const uint64_t half = rows.num_elements / 2;
  const Binding copy = staging_beside(p, rows, rows.num_elements);
  binding_of(p.actions[i], kSource).buffer = copy.buffer;
  binding_of(p.actions[i], kSource).offset = 0;
  insert_copy(p, i, part_of(rows, 0, half), part_of(copy, half, half));
  insert_copy(p, i, part_of(rows, 0, half), part_of(copy, 0, half));
}

/// Both tensor ranks get the heads of the first.
void take_first_heads(Program& p) {
  const size_t i = index_of(p, TSR_ACTION_FORWARD, "h.0.proj", 0);
  Binding& heads = binding_of(p.actions[i], kInput);
  const Binding own = heads;
  const uint64_t n = own.num_elements;
  const Binding from = staging_beside(p, own, 2 * n), to = staging_beside(p, own, 2 * n);
  heads.buffer = to.buffer;
  heads.offset = 0;
  insert_at(p, i,
            collective(p, TSR_ACTION_ALL_TO_ALL, 1,
                       {bound(from, kSource, TSR_MODE_READ), bound(to, kDestination, TSR_MODE_WRITE)}));
  insert_copy(p, i, own, part_of(from, n, n));
  insert_copy(p, i, own, part_of(from, 0, n));
}

/// A call makes the tokens of the first segment.
void make_tokens(Program& p) {
  const size_t i = index_of(p, TSR_ACTION_FORWARD, "wte", 0);
  Binding& tokens = binding_of(p.actions[i], kInput);
  const Binding own = tokens, made = staging_beside(p, own, own.num_elements);
  tokens.buffer = made.buffer;
  tokens.offset = 0;
  insert_call(p, i, made);
  insert_copy(p, i, own, made);
}

/// The rows that a stage has sent are gathered over the stages, and the next one goes on with those of the first.
void gather_rows_over_stages(Program& p) {
  const uint32_t kind = p.coordinates[0] == 0 ? TSR_ACTION_SEND : TSR_ACTION_RECV;
  const auto message = std::ranges::find(p.actions, kind, &Action::kind);
  const auto i = static_cast<size_t>(message - p.actions.begin());
  const Binding rows = message->bindings.front();
  const Binding all = staging_beside(p, rows, 2 * rows.num_elements);
  insert_at(p, i + 1, collective(p, TSR_ACTION_ALL_GATHER, 0, {bound(all, kDestination, TSR_MODE_ADD)}));
  for (const uint64_t position : {0, 1})
    insert_copy(p, i + 1, rows, part_of(all, position * rows.num_elements, rows.num_elements));
  for (size_t k = i + 4; k < p.actions.size() && p.coordinates[0] == 1; ++k)
    for (Binding& binding : p.actions[k].bindings)
      if (binding.buffer == rows.buffer && binding.offset == rows.offset && binding.mode == TSR_MODE_READ) {
        binding.buffer = all.buffer;
        binding.offset = 0;
        return;
      }
}

void round_before(Program& p, uint32_t kind, std::string_view home) {
  const size_t i = index_of(p, kind, home);
  Binding range = binding_of(p.actions[i], kSource);
  const size_t num_before = p.actions.size();
  insert_rounding(p, i, range);
  binding_of(p.actions[i + p.actions.size() - num_before], kSource) = range;
}

/// The sums over the two axes change places.
void sum_over_the_outer_axis_first(Program& p) {
  const auto is_of = [&](const Action& action, std::string_view stream) {
    return action.kind == TSR_ACTION_ALL_REDUCE && p.streams[action.stream].name == stream;
  };
  for (Action& first : p.actions)
    if (is_of(first, "comm.dp.gradient"))
      for (Action& second : p.actions)
        if (is_of(second, "comm.x.gradient") && second.bindings.front().buffer == first.bindings.front().buffer &&
            second.bindings.front().offset == first.bindings.front().offset && first.id < second.id) {
          std::swap(first.group, second.group);
          std::swap(first.stream, second.stream);
          return;
        }
  ADD_FAILURE() << "no two sums of one range";
}

/// The actions that cast to the dtype of a sum, and back.
std::pair<size_t, size_t> casts_around_the_sum(const Program& p) {
  const auto is_cast = [](const Action& action) { return action.kind == TSR_ACTION_CAST; };
  const auto there = std::ranges::find_if(p.actions, is_cast);
  const auto back = std::find_if(there + 1, p.actions.end(), is_cast);
  return {static_cast<size_t>(there - p.actions.begin()), static_cast<size_t>(back - p.actions.begin())};
}

/// What is summed in fp16 is scaled before that, and back after it.
void scale_around_the_sum(Program& p) {
  const auto [there, back] = casts_around_the_sum(p);
  insert_elementwise(p, back + 1, TSR_ACTION_SCALE, *p.actions[back].find(kDestination), 0x1p10);
  insert_elementwise(p, there, TSR_ACTION_SCALE, *p.actions[there].find(kSource), 0x1p-10);
}

void average_and_scale(Program& p) {
  const size_t back = casts_around_the_sum(p).second;
  insert_elementwise(p, back + 1, TSR_ACTION_SCALE, *p.actions[back].find(kDestination), 2);
  for (Action& action : p.actions)
    if (p.streams[action.stream].name == "comm.dp.gradient") action.reduce = TSR_REDUCE_AVG;
}

/// The average of the tied embedding is left out on the last stage.
void forget_average_on_the_last_stage(Program& p) {
  if (p.coordinates[0] == 0) return;
  const auto is_average = [&](const Action& action) {
    return action.reduce == TSR_REDUCE_AVG && object_text(p, action) == " wte";
  };
  ASSERT_EQ(std::erase_if(p.actions, is_average), 1u);
}

/// The call that makes the sum of one block takes the codes of an earlier one.
void decode_those_of_another(Program& p) {
  std::map<uint64_t, const Action*> by_length;
  for (Action& action : p.actions) {
    if (action.kind != TSR_ACTION_CALL || action.reduce != TSR_REDUCE_SUM) continue;
    const auto [earlier, is_first] = by_length.try_emplace(action.find(kDestination)->num_elements, &action);
    if (is_first) continue;
    for (const uint32_t slot : {kSource, TSR_SLOT(TSR_ROLE_SOURCE, 1)})
      binding_of(action, slot).buffer = earlier->second->find(slot)->buffer;
    return;
  }
  ADD_FAILURE() << "no two calls of equal length";
}

constexpr const char* kOfAll = "the same elements on all ranks with this program, which own different ones";

const Fault kFaultsOfClasses[] = {
    {"tokens_of_the_first_of_many", "ddp_of_twenty", kEveryClass,
     [](Program& p) { take_first_gathered(p, TSR_ACTION_FORWARD, "wte"); },
     "which holds nothing that the model names; the model needs tokens mb=0"},
    {"value_of_the_first_of_many", "ddp_of_twenty", kEveryClass,
     [](Program& p) { take_first_gathered(p, TSR_ACTION_FORWARD, "h.0.attention"); },
     "which holds nothing that the model names; the model needs h.0.qkv mb=0"},
    {"slice_of_the_first_of_many", "fsdp_of_twenty", kEveryClass, [](Program& p) { take_slice_of(p, 0); }, kOfAll},
    {"slice_of_the_third_of_many", "fsdp_of_twenty", kEveryClass, [](Program& p) { take_slice_of(p, 2); }, kOfAll},
    {"slice_of_the_first_beside_what_it_keeps", "fsdp_of_twenty", kEveryClass, take_slice_beside_kept, kOfAll},
    {"first_slice_of_the_whole_sum", "fsdp_of_twenty", kEveryClass, take_first_slice_of_sum, kOfAll},
    {"addend_of_a_slice_lost", "fsdp_of_twenty_twice", kEveryClass,
     [](Program& p) {
       Binding& gradient = binding_of(action_of(p, TSR_ACTION_BACKWARD, "h.1.fc_proj", 1), kWeightGradient);
       gradient.buffer = staging_beside(p, gradient, gradient.num_elements).buffer;
       gradient.offset = 0;
       gradient.mode = TSR_MODE_WRITE;
     },
     "gets its own, or one with other addends"},
    {"slice_of_another_rank_rounded", "fsdp_of_twenty", kEveryClass,
     [](Program& p) {
       const size_t i = index_of(p, TSR_ACTION_BACKWARD, "h.0.add_ln_2", 0);
       Binding& bias = binding_of(p.actions[i], kWeightGradient);
       const Binding own = bias, made = staging_beside(p, own, own.num_elements),
                     shorter = staging_beside(p, own, own.num_elements);
       p.buffers[BufferIndex(p)(shorter.buffer)].dtype = TSR_BF16;
       bias.buffer = made.buffer;
       bias.offset = 0;
       insert_copy(p, i + 1, shorter, own);
       insert_copy(p, i + 1, made, shorter);
     },
     "gives rank 6 another slice than it owns"},
    {"values_that_the_first_of_many_keeps", "fsdp_of_twenty", kEveryClass, gather_slices_of_the_first,
     "; the model needs "},
    {"rows_of_the_first_tensor_rank", "rows_with_a_policy", kEveryClass, scatter_first_rows_twice,
     "gives position 1 of the group other rows than its own, if position 0 gets its own"},
    {"heads_of_the_first_tensor_rank", "tensor_with_a_policy", kEveryClass, take_first_heads,
     "takes i0 (h.0.attended) = staging test[0:128], which holds nothing that the model names"},
    {"tokens_of_a_call", "ddp", kEveryClass, make_tokens,
     "which holds what a strategy made; the model needs tokens mb=0"},
    {"outer_axis_summed_first", "ddp_twice", kEveryClass, sum_over_the_outer_axis_first,
     " over an axis before dp, which is further in"},
    {"sum_rounded_afterwards", "ddp_in_bf16", 0,
     [](Program& p) { round_before(p, TSR_ACTION_SUM_SQUARES, "wpe.weight"); },
     "which was rounded to bf16 after it was summed; round what is summed, not the sum"},
    {"sum_rounded_before_the_update", "ddp_in_bf16", 0,
     [](Program& p) { round_before(p, TSR_ACTION_OPTIMIZER, "wpe.weight"); },
     "which was rounded to bf16 after it was summed; round what is summed, not the sum"},
    {"maximum_of_replicas", "local_sgd", kEveryClass,
     [](Program& p) {
       for (Action& action : p.actions)
         if (action.reduce == TSR_REDUCE_AVG) action.reduce = TSR_REDUCE_MAX;
     },
     "which the layout lets diverge; average what diverges"},
    {"scaled_in_float_for_fp16", "ddp_in_fp16", kEveryClass, scale_around_the_sum,
     "in fp16, which loses other small and large values"},
    {"averaged_in_fp16", "ddp_in_fp16", kEveryClass, average_and_scale, "in fp16, which loses small values; sum it"},
    {"average_of_one_stage", "local_sgd_in_stages", kEveryClass, forget_average_on_the_last_stage,
     "wte.weight is averaged on rank 0 and not on rank 2, which keeps the same elements"},
    {"sum_of_another_block", "quantized", kEveryClass, decode_those_of_another,
     "holds what a call has made of other parameters; the model needs the gradient of ln_f.bias"},
    {"one_replica_for_all", "local_sgd", kEveryClass,
     [](Program& p) {
       for (Action& action : p.actions)
         if (action.reduce == TSR_REDUCE_AVG) action.kind = TSR_ACTION_BROADCAST, action.reduce = 0, action.peer = 0;
     },
     "holds nothing that the model names"},
};
INSTANTIATE_TEST_SUITE_P(Class, ModelRule, ::testing::ValuesIn(kFaultsOfClasses), name_of);

TEST(Rows, StayRowsOnAnotherAxis) {
  EXPECT_TRUE(is_clean(job("stages_in_rows").findings(kEveryClass, gather_rows_over_stages)));
}

TEST(Calls, ThatMakeEachBlocksOwnSumAreRight) {
  EXPECT_TRUE(is_clean(job("quantized").findings(kEveryClass, kUnchanged)));
  EXPECT_TRUE(is_clean(job("quantized_in_stages").findings(kEveryClass, kUnchanged)));
  EXPECT_TRUE(is_clean(job("local_sgd_in_stages").findings(kEveryClass, kUnchanged)));
}

/// One stage alone changes the gradient of the embedding that both have.
TEST(Calls, ChangeWhatReplicasUpdateWithOnAllOfThem) {
  const auto change = [](int of) {
    return [of](Program& p) {
      if (of >= 0 && p.coordinates[0] != of) return;
      const size_t i = index_of(p, TSR_ACTION_OPTIMIZER, "wte.weight");
      insert_call(p, i, binding_of(p.actions[i], kSource));
    };
  };
  const MutationJob& twice = job("pipeline_and_ddp");
  EXPECT_TRUE(is_clean(twice.findings(kEveryClass, change(-1))));
  EXPECT_TRUE(has_diagnostic(twice.findings(kEveryClass, change(0)),
                             "the gradient of wte.weight is made by a call on rank 0 and not on rank 2"));
}

/// A call before action i.
void insert_call_of(Program& p, size_t i, const Binding& from, const Binding& to) {
  insert_call(p, i, to);
  p.actions[i].bindings = {bound(from, TSR_SLOT(TSR_ROLE_SOURCE, 0), TSR_MODE_READ),
                           bound(to, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_WRITE)};
}

/// The gradient of the embedding, which two stages update.
Binding& gradient_to_update_with(Program& p, size_t& i) {
  i = index_of(p, TSR_ACTION_OPTIMIZER, "wte.weight");
  return binding_of(p.actions[i], kSource);
}

/// A call makes the first half of it of what begins at an element.
void make_half_from(Program& p, uint64_t element) {
  size_t i = 0;
  const Binding sum = gradient_to_update_with(p, i);
  const uint64_t half = sum.num_elements / 2;
  const Binding operand = staging_beside(p, sum, half);
  insert_call_of(p, i, operand, part_of(sum, 0, half));
  insert_copy(p, i, part_of(sum, element, half), operand);
}

/// What a call makes of it is used from an element on.
void use_made_from(Program& p, uint64_t element) {
  size_t i = 0;
  Binding& source = gradient_to_update_with(p, i);
  const Binding sum = source, made = staging_beside(p, sum, sum.num_elements + 1);
  source.buffer = made.buffer;
  source.offset = element;
  insert_call_of(p, i, sum, made);
}

/// Copies may be from other elements on each rank, and what a call makes does not show it.
TEST(Calls, TakeAndLeaveTheSameElementsOnAllReplicas) {
  const MutationJob& stages = job("pipeline_and_ddp");
  for (const auto change : {make_half_from, use_made_from}) {
    const auto apart = [change](uint64_t elements) {
      return [=](Program& p) { change(p, elements * static_cast<uint64_t>(p.coordinates[0])); };
    };
    EXPECT_TRUE(is_clean(stages.findings(kEveryClass, apart(0))));
    EXPECT_TRUE(has_diagnostic(stages.findings(kEveryClass, apart(1)),
                               "the gradient of wte.weight is made by a call on rank 0 and on rank 2, which keeps the "
                               "same elements, of other operands"));
  }
}

TEST(Sums, MayBeRoundedBeforeThem) {
  EXPECT_TRUE(is_clean(job("each_in_bf16").findings(kEveryClass, kUnchanged)));
}

TEST(Sums, OfWhatIsShardedComeFirst) {
  EXPECT_TRUE(is_clean(job("whole_outside").findings(kEveryClass, kUnchanged)));
}

/// The slice of ln_f on the last rank is beyond its end.
TEST(Replicas, MayOwnPaddingAlone) {
  EXPECT_TRUE(is_clean(job("local_sgd_of_slices").findings(kEveryClass, kUnchanged)));
}

/// The average of a parameter over the replicas, in place.
void average_replicas(Program& p) {
  insert_at(p, 0, collective(p, TSR_ACTION_ALL_REDUCE, 0, {bound(whole(p, "home wpe"), kDestination, TSR_MODE_ADD)}));
  p.actions.front().reduce = TSR_REDUCE_AVG;
}

TEST(Replicas, AreAveragedInStepsAlone) {
  EXPECT_NE(job("local_sgd").refusal_of_init(0, average_replicas).find("init leaves values as they are"),
            std::string::npos);
  EXPECT_NE(job("local_sgd").refusal_of_eval(0, average_replicas).find("holds what a strategy made"),
            std::string::npos);
}

/// Each average in two: of slices, which are gathered.
void average_by_slices(Program& p) {
  for (size_t i = 0; i < p.actions.size(); ++i) {
    if (p.actions[i].reduce != TSR_REDUCE_AVG) continue;
    const Binding range = *p.actions[i].find(kDestination);
    ASSERT_EQ(range.num_elements % 2, 0u);
    const Binding half = staging_beside(p, range, range.num_elements / 2);
    Action scatter = collective(p, TSR_ACTION_REDUCE_SCATTER, 0,
                                {bound(range, kSource, TSR_MODE_READ), bound(half, kDestination, TSR_MODE_WRITE)});
    scatter.reduce = TSR_REDUCE_AVG;
    p.actions[i] = collective(p, TSR_ACTION_ALL_GATHER, 0,
                              {bound(half, kSource, TSR_MODE_READ), bound(range, kDestination, TSR_MODE_WRITE)});
    insert_at(p, i++, std::move(scatter));
  }
}

TEST(Replicas, MayBeAveragedBySlices) {
  EXPECT_TRUE(is_clean(job("local_sgd").findings(kEveryClass, average_by_slices)));
}

TEST(Replicas, AreNotBroadcastByInit) {
  const auto change = [](Program& p) {
    insert_at(p, 0, collective(p, TSR_ACTION_BROADCAST, 0, {bound(whole(p, "home wpe"), kDestination, TSR_MODE_ADD)}));
    p.actions.front().peer = 0;
  };
  EXPECT_NE(job("local_sgd").refusal_of_init(0, change).find("init leaves values as they are"), std::string::npos);
}

/// What is of one part over tp, and what is scaled, is not lost on its way over dp.
class PartsOfTensors : public ::testing::Test {
 protected:
  /// After the forward that leaves each tensor rank with an addend of a value.
  static size_t after_forward(const Program& p) { return index_of(p, TSR_ACTION_FORWARD, "h.0.proj") + 1; }
  static Binding addend(Program& p) { return binding_of(p.actions[after_forward(p) - 1], kOutput); }
  static Diagnostics findings(const Change& change) { return job("rows").findings(kEveryClass, change); }
};

TEST_F(PartsOfTensors, AreNotGathered) {
  EXPECT_TRUE(has_diagnostic(findings([](Program& p) { insert_gather(p, after_forward(p), addend(p)); }),
                             "which is an unreduced partial sum over tp: the others would take what is of a part"));
}

TEST_F(PartsOfTensors, DoNotChangePlacesWithWhatIsWhole) {
  const auto transpose = [](Program& p) {
    const size_t i = after_forward(p);
    const Binding own = addend(p);
    const uint64_t n = own.num_elements;
    const Binding from = staging_beside(p, own, 2 * n), to = staging_beside(p, own, 2 * n);
    insert_at(p, i,
              collective(p, TSR_ACTION_ALL_TO_ALL, 0,
                         {bound(from, kSource, TSR_MODE_READ), bound(to, kDestination, TSR_MODE_WRITE)}));
    insert_copy(p, i, part_of(whole(p, "home h.0"), 0, n), part_of(from, n, n));
    insert_copy(p, i, own, part_of(from, 0, n));
  };
  EXPECT_TRUE(has_diagnostic(findings(transpose), "what is of a part and what is whole would change places"));
}

TEST_F(PartsOfTensors, AreNotSentScaled) {
  const auto send = [](Program& p) {
    const size_t i = after_forward(p);
    const Binding own = addend(p);
    const int peer = 1 - p.coordinates[0];
    Action exchange = collective(p, TSR_ACTION_EXCHANGE, 0,
                                 {bound(own, kSource, TSR_MODE_READ),
                                  bound(staging_beside(p, own, own.num_elements), kDestination, TSR_MODE_WRITE)});
    exchange.peers = {peer, peer};
    insert_at(p, i, std::move(exchange));
    Action average = collective(p, TSR_ACTION_ALL_REDUCE, 1, {bound(own, kDestination, TSR_MODE_ADD)});
    average.reduce = TSR_REDUCE_AVG;
    insert_at(p, i, std::move(average));
  };
  EXPECT_TRUE(has_diagnostic(findings(send), "the others would take it for what it was before it was scaled"));
}

}  // namespace
}  // namespace tessera::testing
