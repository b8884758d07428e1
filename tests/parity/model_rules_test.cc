// The rules that hold programs against the model: for each, a program of a whole job in which that rule alone is
// broken, and the sentence that says so. Those of collectives are in collective_model_rules_test.cc.
#include "base/concat.h"
#include "model_rule.h"

namespace tessera::testing {
namespace {

TEST_P(ModelRule, IsReported) {
  const Fault& fault = GetParam();
  EXPECT_TRUE(is_clean(job(fault.job).findings(fault.rank, [](Program&) {})));
  EXPECT_TRUE(has_diagnostic(job(fault.job).findings(fault.rank, fault.make), fault.finding));
}

const Fault kComputeFaults[] = {
    {"input_of_another_segment", "one", 0,
     [](Program& p) {
       binding_of(action_of(p, TSR_ACTION_BACKWARD, "h.0.ln_1", 1), kInput).buffer =
           buffer_of(p, "activation h.0.mid mb=1");
     },
     "compute backward h.0.ln_1 mb=1 takes i0 (h.0.x) = activation h.0.mid mb=1, which holds h.0.mid mb=1; the model "
     "needs h.0.x mb=1"},
    {"gradient_of_another_value", "one", 0,
     [](Program& p) {
       constexpr uint32_t kFirst = TSR_SLOT(TSR_ROLE_OUTPUT_GRADIENT, 0);
       binding_of(action_of(p, TSR_ACTION_BACKWARD, "h.0.ln_1", 1), kFirst).buffer =
           binding_of(action_of(p, TSR_ACTION_BACKWARD, "h.0.add_ln_2", 1), kFirst).buffer;
     },
     "; the model needs the gradient of h.0.norm_1 mb=1"},
    {"loss_scale_of_the_loss", "fp16", 0,
     [](Program& p) {
       binding_of(action_of(p, TSR_ACTION_LOSS, "loss"), kLossScaleSlot).buffer = buffer_of(p, "scalar lr");
     },
     "compute loss loss mb=0 takes x5 = scalar lr, which holds the learning rate; the model needs the loss scale"},
    {"saved_of_another_micro_batch", "one", 0,
     [](Program& p) {
       binding_of(action_of(p, TSR_ACTION_BACKWARD, "ln_f", 1), kSaved).buffer =
           binding_of(action_of(p, TSR_ACTION_BACKWARD, "ln_f", 0), kSaved).buffer;
     },
     "which holds s0 of ln_f mb=0; the model needs s0 of ln_f mb=1"},
    {"gradient_in_a_home", "one", 0,
     [](Program& p) {
       binding_of(action_of(p, TSR_ACTION_BACKWARD, "wpe", 1), kWeightGradient).buffer = buffer_of(p, "home wpe");
     },
     "compute backward wpe mb=1 adds to home wpe, which holds what wpe has, not the gradient of wpe.weight"},
    {"gradient_of_another_micro_batch", "every", 0,
     [](Program& p) {
       binding_of(action_of(p, TSR_ACTION_BACKWARD, "wte", 1), kWeightGradient).buffer =
           binding_of(action_of(p, TSR_ACTION_BACKWARD, "wte", 0), kWeightGradient).buffer;
     },
     "which holds the gradient of another micro-batch; with --reduce-every micro-batch each has a sum of its own"},
    {"gradient_added_twice", "one", 0, [](Program& p) { repeat(p, TSR_ACTION_BACKWARD, "wpe", 1); },
     "adds to the gradient of wpe.weight in gradient wpe, which has this addend already"},
    {"gradient_missing", "one", 0, [](Program& p) { remove(p, TSR_ACTION_BACKWARD, "wpe", 1); },
     "compute sum_squares wpe.weight takes src0 = gradient wpe, which has not all addends of the gradient of "
     "wpe.weight"},
    {"gradient_scaled_on_one_rank", "one", 0,
     [](Program& p) {
       const size_t i = index_of(p, TSR_ACTION_SUM_SQUARES, "wpe.weight");
       insert_elementwise(p, i, TSR_ACTION_SCALE, *p.actions[i].find(kSource), 0.5);
     },
     "takes src0 = gradient wpe, which holds the gradient of wpe.weight, scaled by 0.5; the model needs the gradient "
     "of "
     "wpe.weight"},
    {"runs_twice", "one", 0,
     [](Program& p) { insert(p, index_of(p, TSR_ACTION_CLIP, "squares"), TSR_ACTION_FORWARD, 1); },
     "segment wpe mb=0: its forward runs 2 times where the model needs it once: rank 0 #2 compute forward wpe mb=0, "
     "rank 0 #"},
    {"runs_never", "one", 0, [](Program& p) { remove(p, TSR_ACTION_BACKWARD, "wte", 1); },
     "segment wte mb=1: nothing runs its backward for its parameters, which the model needs once"},
    {"runs_for_nothing", "frozen", 0,
     [](Program& p) {
       insert(p, index_of(p, TSR_ACTION_CLIP, "squares"), TSR_ACTION_BACKWARD_INPUT, segment_of(p, "h.0.qkv"));
     },
     "segment h.0.qkv mb=0: its backward for its inputs runs 1 times where the model needs it not at all"},
    {"loss_runs_twice", "one", 0,
     [](Program& p) { insert(p, index_of(p, TSR_ACTION_CLIP, "squares"), TSR_ACTION_LOSS, segment_of(p, "loss")); },
     "segment loss mb=0: its loss runs 2 times where the model needs it once"},
    {"micro_batches_in_another_order", "one", 0,
     [](Program& p) {
       const size_t first = index_of(p, TSR_ACTION_BACKWARD, "wpe", 0),
                    second = index_of(p, TSR_ACTION_BACKWARD, "wpe", 1);
       std::swap(binding_of(p.actions[first], kWeightGradient).mode,
                 binding_of(p.actions[second], kWeightGradient).mode);
       std::rotate(p.actions.begin() + static_cast<ptrdiff_t>(first),
                   p.actions.begin() + static_cast<ptrdiff_t>(first) + 1,
                   p.actions.begin() + static_cast<ptrdiff_t>(second) + 1);
     },
     "which holds the gradient of mb=1 already; micro-batches are added in ascending order"},
    {"loss_scale_missing", "fp16", 0, [](Program& p) { unbind(action_of(p, TSR_ACTION_LOSS, "loss"), kLossScaleSlot); },
     "compute loss loss mb=0 does not take the loss scale, which this job has"},
    {"parameter_from_memory_that_nothing_writes", "ddp", 0,
     [](Program& p) {
       Binding& weight = binding_of(action_of(p, TSR_ACTION_FORWARD, "h.0.qkv"), TSR_SLOT(TSR_ROLE_PARAMETER, 0));
       Buffer own = p.buffer(weight.buffer);
       own.id = 0;
       own.kind = TSR_BUFFER_PLUGIN;
       own.strategy = 0;
       own.num_elements = weight.num_elements;
       own.persistent = true;
       weight.buffer = p.add_buffer(own);
       weight.offset = 0;
     },
     "which holds nothing that the model names; the model needs h.0.attn.c_attn.weight"},
    {"gradient_of_what_has_none", "frozen", 0,
     [](Program& p) {
       Binding range = *action_of(p, TSR_ACTION_SUM_SQUARES, "h.1.attn.c_attn.weight").find(kSource);
       range.slot = kWeightGradient;
       range.mode = TSR_MODE_ADD;
       insert(p, index_of(p, TSR_ACTION_SUM_SQUARES, "h.1.attn.c_attn.weight"), TSR_ACTION_BACKWARD_WEIGHT,
              segment_of(p, "h.0.qkv"));
       action_of(p, TSR_ACTION_BACKWARD_WEIGHT, "h.0.qkv").bindings = {range};
     },
     "writes g0 (h.0.attn.c_attn.weight), which has no gradient"},
};
INSTANTIATE_TEST_SUITE_P(Compute, ModelRule, ::testing::ValuesIn(kComputeFaults), name_of);

const Fault kUpdateFaults[] = {
    {"squares_missing", "one", 0, [](Program& p) { remove(p, TSR_ACTION_SUM_SQUARES, kWeight); },
     "compute clip squares takes x0 = accumulator squares, which has not all addends of the sum of squares"},
    {"squares_twice", "one", 0, [](Program& p) { repeat(p, TSR_ACTION_SUM_SQUARES, kWeight); },
     "adds to the sum of squares in accumulator squares[0:20], which has this addend already"},
    {"clip_twice", "one", 0, [](Program& p) { repeat(p, TSR_ACTION_CLIP, "squares"); },
     "takes x3 = scalar optimizer_step, which holds the step count, with this step; the model needs the step count, "
     "without this step"},
    {"update_missing", "one", 0, [](Program& p) { remove(p, TSR_ACTION_OPTIMIZER, "wpe.weight"); },
     "rank 0: after the program home wpe holds wpe.weight; the model needs wpe.weight, updated"},
    {"step_count_of_before", "one", 0,
     [](Program& p) {
       Binding& count =
           binding_of(action_of(p, TSR_ACTION_OPTIMIZER, "wpe.weight"), TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_STEP));
       Buffer copy{0, "count", TSR_BUFFER_STAGING};
       copy.dtype = TSR_I64;
       copy.num_elements = 1;
       const Binding before{p.add_buffer(copy), 0, 1, 0, 0}, own = count;
       count.buffer = before.buffer;
       insert_copy(p, index_of(p, TSR_ACTION_CLIP, "squares"), own, before);
     },
     "which holds the step count, without this step; the model needs the step count, with this step"},
    {"update_twice", "one", 0, [](Program& p) { repeat(p, TSR_ACTION_OPTIMIZER, "wpe.weight"); },
     "takes dst0 = home wpe, which holds wpe.weight, updated; the model needs wpe.weight"},
    {"state_of_another_home", "one", 0,
     [](Program& p) {
       binding_of(action_of(p, TSR_ACTION_OPTIMIZER, "h.1.attn.c_attn.weight"), kFirstState).buffer =
           buffer_of(p, "optimizer h.0 m");
     },
     "which holds the m of h.0.attn.c_attn.weight, updated; the model needs the m of h.1.attn.c_attn.weight"},
    {"update_in_a_skipped_step", "one", 0,
     [](Program& p) { action_of(p, TSR_ACTION_OPTIMIZER, "wpe.weight").flags = 0; },
     "compute optimizer wpe.weight is not predicated: it would update in a step that the run skips"},
    {"rate", "one", 0,
     [](Program& p) {
       Binding& rate = binding_of(action_of(p, TSR_ACTION_OPTIMIZER, "wpe.weight"), kRate);
       Buffer other = p.buffer(rate.buffer);
       other.name = kLossScale;
       other.id = 0;
       rate.buffer = p.add_buffer(other);
     },
     "takes x4 = scalar loss_scale, which holds the loss scale; the model needs the learning rate"},
    {"loss_scale_of_clip", "fp16", 0,
     [](Program& p) {
       binding_of(action_of(p, TSR_ACTION_CLIP, "squares"), kLossScaleSlot).buffer = buffer_of(p, "scalar lr");
     },
     "compute clip squares takes x5 = scalar lr, which holds the learning rate; the model needs the loss scale"},
    {"loss_scale_missing_in_clip", "fp16", 0,
     [](Program& p) { unbind(action_of(p, TSR_ACTION_CLIP, "squares"), kLossScaleSlot); },
     "compute clip squares does not take the loss scale, which this job has"},
    {"run_words_in_another_place", "one", 0,
     [](Program& p) {
       const size_t i = index_of(p, TSR_ACTION_CLIP, "squares");
       const uint64_t squares = buffer_of(p, "accumulator squares");
       insert_copy(p, i, {squares, TSR_ACCUMULATOR_LIMBS, 1, 0, 0}, {squares, TSR_ACCUMULATOR_LIMBS + 1, 1, 0, 0});
     },
     "compute clip squares takes x0 = accumulator squares, which holds run words; the model needs run words from "
     "element 1 "
     "on"},
    {"squares_lost", "one", 0,
     [](Program& p) {
       insert_elementwise(p, p.actions.size(), TSR_ACTION_ZERO, {buffer_of(p, "accumulator squares"), 0, 20, 0, 0});
     },
     "rank 0: after the program accumulator squares[0:20] has not all addends of the sum of squares"},
    {"micro_batch_added_twice", "every", 0,
     [](Program& p) {
       const auto adds = [](const Action& action) {
         return action.kind == TSR_ACTION_ADD_INTO &&
                action.find(TSR_SLOT(TSR_ROLE_DESTINATION, 0))->mode == TSR_MODE_ADD;
       };
       const auto last = std::ranges::find_if(p.actions, adds);
       Action again = *last;
       again.id = p.next_id++;
       p.actions.insert(last + 1, std::move(again));
     },
     ": such a sum is not in the model, or has an addend twice"},
    {"value_rounded", "one", 0,
     [](Program& p) {
       Binding home = whole(p, "home wpe");
       insert_rounding(p, index_of(p, TSR_ACTION_OPTIMIZER, "wpe.weight"), home);
     },
     "takes dst0 = home wpe, which holds wpe.weight, rounded to bf16; the model needs it as it was"},
    {"value_rounded_after_its_update", "fp16", 0,
     [](Program& p) {
       Binding kept = whole(p, "home wpe");
       insert_rounding(p, p.actions.size(), kept);
     },
     "rank 0: after the program home wpe holds wpe.weight, updated, rounded to bf16; the model needs it as it was"},
    {"state_rounded", "one", 0,
     [](Program& p) {
       Binding kept = whole(p, "optimizer wpe v");
       insert_rounding(p, p.actions.size(), kept);
     },
     "rank 0: after the program optimizer wpe v holds the v of wpe.weight, updated, rounded to bf16; the model"},
    {"gradient_rounded", "one", 0,
     [](Program& p) {
       const size_t i = index_of(p, TSR_ACTION_SUM_SQUARES, "wpe.weight");
       Binding read = binding_of(p.actions[i], kSource);
       insert_rounding(p, i, read);
       binding_of(action_of(p, TSR_ACTION_SUM_SQUARES, "wpe.weight"), kSource) = read;
     },
     "which holds the gradient of wpe.weight, rounded to bf16; the model needs it as it was"},
    {"gradient_rounded_between_its_addends", "one", 0,
     [](Program& p) {
       const size_t i = index_of(p, TSR_ACTION_BACKWARD, "wpe", 1);
       Binding sum = binding_of(p.actions[i], kWeightGradient);
       insert_rounding(p, i, sum);
       binding_of(action_of(p, TSR_ACTION_BACKWARD, "wpe", 1), kWeightGradient) = sum;
       for (const uint32_t kind : {TSR_ACTION_SUM_SQUARES, TSR_ACTION_OPTIMIZER}) {
         Binding& read = binding_of(action_of(p, kind, "wpe.weight"), kSource);
         read.buffer = sum.buffer;
         read.offset = sum.offset;
       }
     },
     "which holds the gradient of wpe.weight, rounded to bf16; the model needs it as it was"},
    {"input_rounded", "one", 0,
     [](Program& p) {
       const size_t i = index_of(p, TSR_ACTION_FORWARD, "h.0.ln_1", 0);
       Binding read = binding_of(p.actions[i], kInput);
       insert_rounding(p, i, read);
       binding_of(action_of(p, TSR_ACTION_FORWARD, "h.0.ln_1", 0), kInput) = read;
     },
     "which holds h.0.x mb=0, rounded to bf16; the model needs it as it was"},
    {"loss_lost", "one", 0,
     [](Program& p) {
       insert_elementwise(p, p.actions.size(), TSR_ACTION_ZERO, {buffer_of(p, "accumulator loss"), 0, 20, 0, 0});
     },
     "rank 0: after the program accumulator loss has not all addends of the loss"},
    {"sum_that_is_not_in_the_model", "every", 0,
     [](Program& p) {
       for (Action& action : p.actions)
         if (action.kind == TSR_ACTION_ADD_INTO) {
           binding_of(action, kSource).buffer = buffer_of(p, "home wte");
           binding_of(action, kSource).offset = 0;
           return;
         }
     },
     ": such a sum is not in the model, or has an addend twice"},
};
INSTANTIATE_TEST_SUITE_P(Update, ModelRule, ::testing::ValuesIn(kUpdateFaults), name_of);

void bind_a_slot_that_the_op_lacks(Program& p) {
  Action& forward = action_of(p, TSR_ACTION_FORWARD, "h.0.ln_1", 0);
  Buffer more = p.buffer(binding_of(forward, kOutput).buffer);
  more.id = 0;
  forward.bindings.push_back({p.add_buffer(more), 0, more.num_elements, TSR_SLOT(TSR_ROLE_SAVED, 7), TSR_MODE_WRITE});
}

const Fault kCommonFaults[] = {
    {"config", "one", 0, [](Program& p) { p.step_config.max_norm = 0.005; },
     "rank 0: its step program has max_norm 0.005, where the job has 0.01"},
    {"layout", "fsdp", 0, [](Program& p) { p.layout.front().roles &= ~(1u << TSR_HOME_GRADIENT); },
     "rank 0: its step program has another layout than the init program of rank 0"},
    {"padded_size", "fsdp", 0, [](Program& p) { ++p.layout.front().padded_size; },
     "rank 0: its step program has another layout than the init program of rank 0"},
    {"persistent", "one", 0,
     [](Program& p) {
       for (Buffer& buffer : p.buffers)
         if (buffer.name == kClipResult) buffer.persistent = false;
     },
     "rank 0: its step program does not keep scalar clip as the init program does"},
    {"slot_that_the_op_lacks", "one", 0, bind_a_slot_that_the_op_lacks,
     "binds s7, which the device does not list for its op"},
    {"operand_missing", "one", 0, [](Program& p) { unbind(action_of(p, TSR_ACTION_BACKWARD, "h.0.ln_1", 0), kSaved); },
     "compute backward h.0.ln_1 mb=0 binds no s0, which the device's op needs"},
    {"written_where_it_is_read", "one", 0,
     [](Program& p) {
       Action& forward = action_of(p, TSR_ACTION_FORWARD, "h.0.proj", 0);
       const uint64_t shared = binding_of(forward, kInput).buffer, output = binding_of(forward, kOutput).buffer;
       for (Buffer& buffer : p.buffers)
         if (buffer.id == shared) buffer.kind = TSR_BUFFER_WORKSPACE;
       for (Action& action : p.actions)
         for (Binding& binding : action.bindings)
           if (binding.buffer == output) binding.buffer = shared;
     },
     "mb=0, and i0 (h.0.attended) too; an operand that is written has its own"},
    {"scratch_used_twice", "one", 0,
     [](Program& p) {
       Action& loss = action_of(p, TSR_ACTION_LOSS, "loss", 0);
       const uint64_t first = binding_of(loss, TSR_SLOT(TSR_ROLE_WORKSPACE, 0)).buffer;
       binding_of(loss, TSR_SLOT(TSR_ROLE_WORKSPACE, 1)).buffer = first;
     },
     "binds w0 to workspace loss mb=0, and w1 too; an operand of scratch has its own"},
};
INSTANTIATE_TEST_SUITE_P(Common, ModelRule, ::testing::ValuesIn(kCommonFaults), name_of);

TEST(ModelRuleOfSlots, HoldsInEval) {
  EXPECT_TRUE(has_diagnostic({job("one").refusal_of_eval(0, bind_a_slot_that_the_op_lacks)},
                             "binds s7, which the device does not list for its op"));
}

TEST(ModelRuleOfConfig, OfEveryNumber) {
  const auto expect_refused = [](const char* name, auto StepConfig::*field, auto value) {
    const auto change = [=](Program& p) { p.step_config.*field = value; };
    EXPECT_TRUE(
        has_diagnostic(job("one").findings(0, change), concat("its step program has ", name, " ", value, ", where")))
        << name;
  };
  expect_refused("beta1", &StepConfig::beta1, 0.5);
  expect_refused("beta2", &StepConfig::beta2, 0.5);
  expect_refused("epsilon", &StepConfig::epsilon, 0.5);
  expect_refused("weight_decay", &StepConfig::weight_decay, 0.5);
  const auto half = [](Program& p) { p.step_config.reduce_dtype = TSR_BF16; };
  EXPECT_TRUE(has_diagnostic(job("one").findings(0, half), "has reduce_dtype bf16, where the job has f32"));
}

/// `own` is a buffer of a strategy that lives from step to step. Averages the gradient of kWeight with what it holds:
/// into it, or through a copy of the gradient.
void average(Program& p, bool into_own) {
  const size_t squares = index_of(p, TSR_ACTION_SUM_SQUARES, kWeight);
  const Binding gradient = *p.actions[squares].find(kSource);
  const auto add_buffer = [&](const char* name, bool persistent) {
    Buffer buffer = p.buffer(gradient.buffer);
    buffer.id = 0;
    buffer.name = name;
    buffer.kind = TSR_BUFFER_PLUGIN;
    buffer.strategy = 0;
    buffer.num_elements = gradient.num_elements;
    buffer.persistent = persistent;
    return Binding{p.add_buffer(buffer), 0, gradient.num_elements, 0, 0};
  };
  const auto insert_add = [&](const Binding& from, const Binding& to) {
    insert_copy(p, squares, from, to);
    p.actions[squares].kind = TSR_ACTION_ADD_INTO;
    p.actions[squares].bindings.front().mode = TSR_MODE_ADD;
  };
  const Binding own = add_buffer("average", true);
  if (into_own) return insert_add(gradient, own);
  const Binding copy = add_buffer("copy", false);
  insert_copy(p, squares, copy, own);
  insert_add(own, copy);
  insert_copy(p, squares, gradient, copy);
}

// What such a buffer held before is nothing that the model names, and may be part of a sum that only the strategy
// reads.
TEST(ModelRuleOfOwnMemory, MayBeAddedToAndAdded) {
  for (const bool into_own : {true, false})
    EXPECT_EQ(job("one").findings(0, [&](Program& p) { average(p, into_own); }), Diagnostics{}) << into_own;
}

// As the errors of compressed gradients.
TEST(ModelRuleOfOwnMemory, HasWhatACallOfTheStepBeforeHasMade) {
  const auto feed_back = [](bool is_made) {
    return [is_made](Program& p) {
      const size_t i = index_of(p, TSR_ACTION_SUM_SQUARES, kWeight);
      const Binding gradient = binding_of(p.actions[i], kSource);
      Buffer own{0, "own", TSR_BUFFER_PLUGIN};
      own.persistent = true;
      own.strategy = 0;
      own.num_elements = gradient.num_elements;
      const Binding whole_own{p.add_buffer(own), 0, own.num_elements, kSource, TSR_MODE_READ};
      insert_elementwise(p, i, TSR_ACTION_ADD_INTO, gradient);
      p.actions[i].bindings.push_back(whole_own);
      if (is_made) insert_call(p, p.actions.size(), whole_own);
    };
  };
  EXPECT_EQ(job("ddp").findings(0, feed_back(true)), Diagnostics{});
  EXPECT_NE(job("ddp").findings(0, feed_back(false)), Diagnostics{});
}

TEST(ModelRuleOfOwnMemory, IsNoGradient) {
  const auto update_with_average = [](Program& p) {
    average(p, false);
    const uint64_t copy = std::ranges::find(p.buffers, "copy", &Buffer::name)->id;
    for (const uint32_t kind : {TSR_ACTION_SUM_SQUARES, TSR_ACTION_OPTIMIZER})
      for (Binding& binding : action_of(p, kind, kWeight).bindings)
        if (binding.slot == kSource) binding.buffer = copy, binding.offset = 0;
  };
  EXPECT_TRUE(has_diagnostic(job("one").findings(0, update_with_average), "which holds nothing that the model names"));
}

TEST(ModelRuleOfAccuracy, IsNotLost) {
  const MutationJob classifier({"--model=mlp:3,16,3", "--batch-size=4"}, 1);
  const auto lose = [](Program& p) {
    insert_elementwise(p, p.actions.size(), TSR_ACTION_ZERO, whole(p, "accumulator correct"));
  };
  EXPECT_EQ(classifier.findings(0, kUnchanged), Diagnostics{});
  EXPECT_TRUE(has_diagnostic(classifier.findings(0, lose), "after the program accumulator correct"));
}

// The host fills what the homes of the first step program name.
TEST(ModelRuleOfHomes, InAnotherPlaceInAnotherProgram) {
  const auto exchanged = [](Program& eval) {
    const auto home = [&](std::string_view name) { return std::ranges::find(eval.homes, name, &Home::name); };
    std::swap(home("h.0.ln_1.bias")->roles, home("h.0.ln_1.weight")->roles);
  };
  EXPECT_TRUE(has_diagnostic({job("one").refusal_of_eval(0, exchanged)},
                             "rank 0: its eval program has the value of h.0.ln_1.weight in another place than the "
                             "program whose homes the host fills"));
  const auto without_value = [](Program& eval) {
    std::ranges::find(eval.homes, "h.0.ln_1.bias", &Home::name)->roles[TSR_HOME_VALUE] = {};
  };
  EXPECT_TRUE(has_diagnostic({job("one").refusal_of_eval(0, without_value)},
                             "which holds zeros; the model needs h.0.ln_1.bias"));
  const auto reversed = [](Program& eval) { std::ranges::reverse(eval.homes); };
  EXPECT_TRUE(has_diagnostic({job("one").refusal_of_eval(0, reversed)}, "has other homes than the init program"));
}

/// The home of h.0.ln_1.weight gets its padding, and its update takes copies of what it keeps, with which it reaches
/// over the home that follows.
void update_beside_another(Program& p) {
  constexpr uint64_t kElements = 32, kPadded = 128, kCopy = 96;
  Home& home = *std::ranges::find(p.homes, "h.0.ln_1.weight", &Home::name);
  home.num_elements = kPadded;
  for (auto& [number, role] : home.roles)
    role.num_elements = kPadded;
  binding_of(action_of(p, TSR_ACTION_SUM_SQUARES, home.name), kSource).num_elements = kPadded;
  const size_t update = index_of(p, TSR_ACTION_OPTIMIZER, home.name);
  std::vector<Binding> kept;
  for (Binding& binding : p.actions[update].bindings) {
    if (TSR_SLOT_ROLE(binding.slot) == TSR_ROLE_SCALAR) continue;
    binding.num_elements = kPadded;
    if (binding.slot == kSource) continue;
    kept.push_back({binding.buffer, binding.offset, kElements, 0, 0});
    binding.offset += kCopy;
  }
  for (const Binding& own : kept) {
    const Binding copy{own.buffer, own.offset + kCopy, kElements, 0, 0};
    insert_elementwise(p, index_of(p, TSR_ACTION_OPTIMIZER, home.name) + 1, TSR_ACTION_ZERO, copy);
    insert_copy(p, index_of(p, TSR_ACTION_OPTIMIZER, home.name) + 1, copy, own);
    insert_copy(p, index_of(p, TSR_ACTION_OPTIMIZER, home.name), own, copy);
  }
  const HomeRole& gradient = home.roles[TSR_HOME_GRADIENT];
  insert_elementwise(p, 0, TSR_ACTION_ZERO, {gradient.buffer, gradient.offset + kElements, kPadded - kElements, 0, 0});
}

// A kernel updates the elements of its home alone, wherever they are.
TEST(ModelRuleOfHomes, UpdatedByTheUpdateOfAnother) {
  EXPECT_EQ(job("one").findings(0, update_beside_another), Diagnostics{});
  const auto without_own = [](Program& p) {
    update_beside_another(p);
    p.actions.erase(p.actions.begin() + static_cast<ptrdiff_t>(index_of(p, TSR_ACTION_OPTIMIZER, "h.0.ln_1.bias")));
  };
  EXPECT_TRUE(has_diagnostic(job("one").findings(0, without_own),
                             "after the program home h.0 holds h.0.ln_1.bias; the model needs h.0.ln_1.bias, updated"));
}

// Of frozen parameters the values are all that homes keep.
TEST(ModelRuleOfHomes, OfAFrozenParameterOwnedByBothRanks) {
  const auto second_half = [](Program& init) {
    for (Home& home : init.homes)
      if (home.name == "wpe frozen") home.pieces.front().parameter_offset = home.pieces.front().num_elements;
  };
  EXPECT_TRUE(has_diagnostic({job("frozen_fsdp").refusal_of_init(0, second_half)},
                             "the layout splits the value of wpe.weight over dp, but ranks 0 and 1 both own its "
                             "elements 1024 to 2047"));
}

TEST(ModelRuleOfHomes, MovedToAParameterOfAnotherStage) {
  const auto last = [](Program& init) {
    for (tsr_piece& piece : init.homes.front().pieces)
      piece.parameter = init.model->parameter("ln_f.bias");
  };
  EXPECT_TRUE(has_diagnostic(
      {job("all").refusal_of_init(0, last)},
      "the layout splits the gradient of wte.weight over dp, but none of these ranks owns its elements 0 to 767"));
}

TEST(ModelRuleOfHomes, OwnedTwiceByOneRank) {
  const auto twice = [](Program& init) {
    for (Home& home : init.homes)
      if (home.name == "h.0.ln_1.bias")
        home.pieces = std::ranges::find(init.homes, "h.0.ln_1.weight", &Home::name)->pieces;
  };
  EXPECT_TRUE(has_diagnostic({job("one").refusal_of_init(0, twice)}, "rank 0 owns twice"));
}

}  // namespace
}  // namespace tessera::testing
