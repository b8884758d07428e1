// The base program of a small GPT-2, and what the host adds to it.
#include "passes/build_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ddp.h"
#include "passes/casts.h"
#include "program/lower_op.h"
#include "program/range_set.h"
#include "support/expect_error.h"
#include "support/gpt2_ddp.h"
#include "support/gpt2_pass.h"
#include "support/program_builder.h"
#include "tessera/operands.hpp"

namespace tessera::testing {
using namespace host;
namespace {

size_t count(const Program& program, uint32_t kind) {
  return static_cast<size_t>(std::ranges::count(program.actions, kind, &Action::kind));
}

TEST(BaseProgram, RunsForwardLossAndBackwardOfEveryMicroBatch) {
  const Gpt2Ddp gpt2(1);
  const Program step = gpt2.base(0);
  const size_t segments = step.model->segments.size() - 1;
  EXPECT_EQ(count(step, TSR_ACTION_FORWARD), 2 * segments);
  EXPECT_EQ(count(step, TSR_ACTION_BACKWARD), 2 * segments);
  EXPECT_EQ(count(step, TSR_ACTION_LOSS), 2u);
  EXPECT_EQ(count(step, TSR_ACTION_SUM_SQUARES), step.model->parameters.size());
  EXPECT_EQ(count(step, TSR_ACTION_OPTIMIZER), step.model->parameters.size());
  EXPECT_EQ(count(step, TSR_ACTION_CLIP), 1u);
}

TEST(BaseProgram, BackwardMirrorsForward) {
  const Gpt2Ddp gpt2(1, TSR_EVERY_STEP, 1);
  const Program step = gpt2.base(0);
  std::vector<int> forward, backward;
  for (const Action& action : step.actions) {
    if (action.kind == TSR_ACTION_FORWARD) forward.push_back(action.segment);
    if (action.kind == TSR_ACTION_BACKWARD) backward.push_back(action.segment);
  }
  std::ranges::reverse(backward);
  EXPECT_EQ(forward, backward);
  EXPECT_TRUE(std::ranges::is_sorted(forward));
}

// Kernels write all that the table says, and would write over what comes next.
TEST(BaseProgram, RefusesADeviceThatKeepsOtherThingsThanItsOpsDo) {
  const Gpt2Ddp gpt2(1);
  const Program step = gpt2.base(0);
  const auto expect_refused = [&](const std::function<void(tsr_slot_spec&)>& change,
                                  const std::vector<std::string>& texts) {
    const auto describe = [&](const tsr_op& op) {
      std::vector<tsr_slot_spec> slots = cpu::describe(op);
      for (tsr_slot_spec& slot : slots)
        if (TSR_SLOT_ROLE(slot.slot) == TSR_ROLE_SAVED) change(slot);
      return slots;
    };
    expect_error(
        [&] {
          build_program(*step.model, *step.mesh, step.coordinates, step.step_config, {}, TSR_PURPOSE_STEP, describe);
        },
        texts);
  };
  expect_refused([](tsr_slot_spec& slot) { --slot.num_elements; },
                 {"the device describes slot s0 of ", " elements, the model with "});
  expect_refused([](tsr_slot_spec& slot) { slot.dtype = TSR_F64; },
                 {"the device describes slot s0 of ", " in f64, the op table in f32"});
  expect_refused([](tsr_slot_spec& slot) { slot.slot += 5; },
                 {"the device describes slot s5 of ", ", which its op does not save"});
}

// Devices refuse what an op does not have, so that a later minor may give it to the op.
TEST(BaseProgram, SendsZerosWhereAnOpHasNoAttributeOrExtent) {
  const Gpt2Ddp gpt2(1);
  const Program step = gpt2.base(0);
  for (const Action& action : step.actions) {
    const tsr_op op = op_of(step, action);
    EXPECT_NO_THROW(op::check_known(op)) << op::op_name(op.kind);
    EXPECT_EQ(op.attributes[TSR_ATTR_ARRIVALS] != 0, op.kind == TSR_OP_CLIP);
    EXPECT_EQ(op.attributes[TSR_ATTR_BETA1] != 0, op.kind == TSR_OP_ADAMW);
  }
  tsr_op op{};
  op.kind = TSR_OP_LAYER_NORM;
  op.attributes[TSR_ATTR_EPSILON] = 0.5;
  op.attributes[TSR_ATTR_SCALE] = 2;
  op.dims[TSR_DIM_EMBED] = 4;
  op.dims[TSR_DIM_VOCAB] = 9;
  const tsr_op sent = trimmed(op);
  EXPECT_EQ(sent.attributes[TSR_ATTR_EPSILON], 0.5);
  EXPECT_EQ(sent.attributes[TSR_ATTR_SCALE], 0);
  EXPECT_EQ(sent.dims[TSR_DIM_EMBED], 4);
  EXPECT_EQ(sent.dims[TSR_DIM_VOCAB], 0);
}

TEST(BaseProgram, ListsTheInputsOfEveryMicroBatch) {
  const Gpt2Ddp gpt2(1);
  const Program step = gpt2.base(0);
  ASSERT_EQ(step.inputs.size(), 4u);
  const char* const names[] = {"tokens mb=0", "targets mb=0", "tokens mb=1", "targets mb=1"};
  for (int i = 0; i < 4; ++i) {
    const InputBuffer& input = step.inputs[static_cast<size_t>(i)];
    EXPECT_EQ(input.micro_batch, i / 2);
    EXPECT_EQ(input.input, i % 2);
    EXPECT_EQ(step.buffer(input.buffer).name, names[i]);
  }
}

TEST(BaseProgram, EvalBindsNoGradientAndSavesNothing) {
  const Gpt2Ddp gpt2(1);
  const Program eval = gpt2.base(0, TSR_PURPOSE_EVAL);
  EXPECT_EQ(count(eval, TSR_ACTION_BACKWARD), 0u);
  EXPECT_EQ(count(eval, TSR_ACTION_LOSS), 2u);
  for (const Action& action : eval.actions)
    for (const Binding& b : action.bindings) {
      EXPECT_NE(eval.buffer(b.buffer).kind, TSR_BUFFER_GRADIENT);
      EXPECT_NE(eval.buffer(b.buffer).kind, TSR_BUFFER_SAVED);
    }
}

TEST(BaseProgram, AllPurposesHaveTheSamePersistentBuffers) {
  const auto persistent_of = [](const Program& program) {
    std::vector<std::pair<uint32_t, std::string>> result;
    for (const Buffer& b : program.buffers)
      if (b.persistent) result.emplace_back(b.kind, b.name);
    return result;
  };
  const Gpt2Ddp gpt2(2);
  EXPECT_EQ(persistent_of(gpt2.base(0)), persistent_of(gpt2.base(0, TSR_PURPOSE_EVAL)));
  EXPECT_EQ(persistent_of(gpt2.base(0)), persistent_of(gpt2.base(1, TSR_PURPOSE_INIT)));
}

TEST(BaseProgram, TheGradientOfFcProjsOutputIsTheResidualsGradient) {
  const Gpt2Ddp gpt2(1, TSR_EVERY_STEP, 1);
  const Program step = gpt2.base(0);
  const auto output_gradient = [&](const char* segment) {
    for (const Action& action : step.actions)
      if (action.kind == TSR_ACTION_BACKWARD && action.segment == step.model->segment(segment))
        return action.find(TSR_SLOT(TSR_ROLE_OUTPUT_GRADIENT, 0))->buffer;
    return uint64_t{0};
  };
  EXPECT_EQ(output_gradient("h.0.fc_proj"), output_gradient("h.0.add"));
  EXPECT_EQ(output_gradient("wte"), output_gradient("wpe"));
  EXPECT_NE(output_gradient("h.0.proj"), output_gradient("h.0.add_ln_2"));
}

TEST(BaseProgram, ReducingEveryMicroBatchGivesEachItsOwnGradients) {
  const Gpt2Ddp gpt2(1, TSR_EVERY_MICRO_BATCH, 3);
  const Program step = gpt2.base(0);
  EXPECT_EQ(count(step, TSR_ACTION_ADD_INTO), 3 * step.model->parameters.size());
  std::set<uint64_t> homes;
  for (const Home& home : step.homes)
    homes.insert(home.roles[TSR_HOME_GRADIENT].buffer);
  for (const Action& action : step.actions)
    for (const Binding& b : action.bindings)
      EXPECT_FALSE(is_compute(action.kind) && homes.contains(b.buffer));
}

TEST(BaseProgram, ADeviceThatLiesAboutSizesIsRefused) {
  const Model model = toy_model();
  const Mesh mesh;
  expect_error(
      [&] {
        build_program(model, mesh, {}, {}, {}, TSR_PURPOSE_STEP, [](const tsr_op&) {
          return std::vector<tsr_slot_spec>{{TSR_SLOT(TSR_ROLE_OUTPUT, 0), TSR_MODE_WRITE, TSR_F32, 0, 7}};
        });
      },
      {"wte", "7"});
}

TEST(Finish, TheFirstAddOfAMicroBatchBecomesAWrite) {
  const Gpt2Ddp gpt2(1);
  const Program step = gpt2.finished(0);
  for (const Home& home : step.homes) {
    std::vector<uint32_t> modes;
    const HomeRole& role = home.roles[TSR_HOME_GRADIENT];
    for (const Action& action : step.actions)
      for (const Binding& b : action.bindings)
        if (is_compute(action.kind) && b.buffer == role.buffer && b.offset == role.offset && b.mode != TSR_MODE_READ)
          modes.push_back(b.mode);
    ASSERT_GE(modes.size(), 2u) << home.name;
    EXPECT_EQ(modes[0], TSR_MODE_WRITE) << home.name;
    for (size_t i = 1; i < modes.size(); ++i)
      EXPECT_EQ(modes[i], TSR_MODE_ADD) << home.name;
  }
}

TEST(Finish, SumsLossAndSquaresOverTheWorld) {
  const Gpt2Ddp alone(1), gpt2(2);
  EXPECT_EQ(count(alone.finished(0), TSR_ACTION_ALL_REDUCE), count(alone.lowered(0), TSR_ACTION_ALL_REDUCE));
  const Program two = gpt2.finished(0);
  const size_t clip = nth_action(two, TSR_ACTION_CLIP),
               last_squares = nth_action(two, TSR_ACTION_ALL_REDUCE, "comm.world.scalars", 1);
  EXPECT_LT(last_squares, clip);
  EXPECT_GT(last_squares, nth_action(two, TSR_ACTION_SUM_SQUARES, "", two.homes.size() - 1));
  EXPECT_EQ(nth_action(two, TSR_ACTION_ALL_REDUCE, "comm.world.scalars", 2), two.actions.size());
}

TEST(Finish, PadsAreZeroedBeforeAReductionReadsThem) {
  const Gpt2Ddp gpt2(2);
  const Program step = gpt2.finished(0);
  RangeSet written;
  const uint64_t gradient =
      step.homes.back().roles[TSR_HOME_GRADIENT].buffer;  // ln_f: 16 of every 128 elements are real
  bool reduced = false;
  for (const Action& action : step.actions)
    for (const Binding& b : action.bindings) {
      if (b.buffer != gradient) continue;
      if (action.kind == TSR_ACTION_ALL_REDUCE) {
        EXPECT_TRUE(written.contains(b.offset, b.offset + b.num_elements));
        reduced = true;
      }
      if (b.mode == TSR_MODE_WRITE) written.add(b.offset, b.offset + b.num_elements);
    }
  EXPECT_TRUE(reduced);
}

TEST(Finish, AnAddIntoAPartlyWrittenRangeIsAnError) {
  const Model model = toy_model();
  const Mesh mesh;
  Program program = empty_program(model, mesh);
  const uint64_t x = transient(program, "x", 16), y = transient(program, "y", 16);
  add_action(program, TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, {write(y)});
  add_action(program, TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, {write(x).at(0, 8)});
  add_action(program, TSR_ACTION_ADD_INTO, TSR_STREAM_COMPUTE, {read(y), add(x)});
  expect_error([&] { finalize_program(program); }, {"x", "partly written"});
}

TEST(Finish, CompletesGradientsThatSeveralStagesHold) {
  const Model model = toy_model();
  const Mesh mesh({{"pp", 3, TSR_SPLITS_LAYERS}});
  Program program = empty_program(model, mesh, {2});
  program.layout = {{0, 0, TSR_ALL_HOME_ROLES, TSR_LAYOUT_REPLICATED, -1, 1, 1, {0, 2}, 0}};
  const uint64_t gradient = transient(program, "wte", 512, TSR_BUFFER_GRADIENT);
  Home home{program.next_id++, "wte.weight", 0, {{0, 0, 0, 512, 0}}, 512, {}};
  home.roles[TSR_HOME_GRADIENT] = {gradient, 0, 512};
  program.homes.push_back(home);
  add_action(program, TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, {write(gradient)});
  add_action(program, TSR_ACTION_SUM_SQUARES, TSR_STREAM_COMPUTE, {read(gradient)}).home = home.id;
  finalize_program(program);
  ASSERT_EQ(program.actions.size(), 3u);
  EXPECT_EQ(program.actions[1].kind, TSR_ACTION_ALL_REDUCE);
  EXPECT_EQ(program.groups[static_cast<size_t>(program.actions[1].group)], (Group{0, {0, 2}}));
  EXPECT_TRUE(counted_ranges(program, home).empty());  // coordinate 0 counts it
}

TEST(CountedRanges, AReplicatedGradientCountsOnTheFirstRankOnly) {
  const Gpt2Ddp gpt2(3);
  const Program first = gpt2.base(0), second = gpt2.base(1);
  for (size_t i = 0; i < first.homes.size(); ++i) {
    ASSERT_EQ(counted_ranges(first, first.homes[i]).size(), 1u);
    EXPECT_EQ(counted_ranges(first, first.homes[i])[0].num_elements, first.homes[i].num_elements);
    EXPECT_TRUE(counted_ranges(second, second.homes[i]).empty());
  }
}

TEST(OptimizerRanges, DecayIsForTensorsOfTwoDims) {
  const Gpt2Ddp gpt2(1);
  Program program = gpt2.base(0);
  program.step_config.weight_decay = 0.25;
  for (const Home& home : program.homes) {
    const bool matrix = program.model->parameters[static_cast<size_t>(home.pieces[0].parameter)].dims.size() == 2;
    EXPECT_EQ(optimizer_ranges(program, home)[0].weight_decay, matrix ? 0.25 : 0.0) << home.name;
  }
}

TEST(SumOfSquares, OfWhatSomeRanksShareIsOfTheFirstOfThem) {
  const Model model = toy_model();
  const Mesh mesh({{"pp", 3, TSR_SPLITS_LAYERS}});
  Program program = empty_program(model, mesh);
  LayoutEntry& entry = program.layout.emplace_back();
  entry.parameter = entry.axis = 0;
  entry.coordinates = {1, 2};
  const Home home{1, "home", 0, {{0, 0, 0, 64, 0}}, 64, {}};
  for (const int stage : {0, 1, 2}) {
    program.coordinates = {stage};
    EXPECT_EQ(counted_ranges(program, home).size(), stage == 1 ? 1u : 0u) << stage;
  }
}

// Units are complete from the last to the first; a bucket is as large as it may be.
TEST(Buckets, AreFilledInOrder) {
  const Gpt2Pass gpt2(2);
  std::map<std::string, uint64_t> elements;
  for (const Unit& unit : gpt2.model().units)
    elements[unit.name] = unit.num_elements;
  const uint64_t bucket = elements.at("ln_f") + elements.at("h.1");
  ASSERT_LE(elements.at("h.0") + elements.at("wpe"), bucket);
  const double mebibytes = static_cast<double>(bucket * sizeof(float)) / (1 << 20);
  const tsr_option_value option{str("bucket-mb"), str(""), 0, mebibytes};
  std::vector<uint64_t> sums;
  for (const Action& action : gpt2.lowered(ddp::Ddp("dp", std::span(&option, 1)), 0).actions)
    if (action.kind == TSR_ACTION_ALL_REDUCE) sums.push_back(action.bindings[0].num_elements);
  EXPECT_EQ(sums, (std::vector<uint64_t>{bucket, elements.at("h.0") + elements.at("wpe"), elements.at("wte")}));
}

// ---- casts for each use ----

class CastAnew : public ::testing::Test {
 protected:
  void cast(uint64_t num_elements = kWhole) {
    add_action(program_, TSR_ACTION_CAST, TSR_STREAM_COMPUTE, {read(home_), write(copy_).at(0, num_elements)});
  }
  void use(int micro_batch) {
    Action& action =
        add_action(program_, TSR_ACTION_FORWARD, TSR_STREAM_COMPUTE, {read(copy_, TSR_SLOT(TSR_ROLE_PARAMETER, 0))});
    action.segment = 1;
    action.micro_batch = micro_batch;
  }
  void change(uint64_t buffer) { add_action(program_, TSR_ACTION_SCALE, TSR_STREAM_COMPUTE, {add(buffer)}); }
  size_t num_casts() {
    cast_anew(program_);
    return count(program_, TSR_ACTION_CAST);
  }

  const Model model_ = toy_model();
  const Mesh mesh_{{{"dp", 1}}};
  Program program_ = empty_program(model_, mesh_);
  const uint64_t home_ = persistent(program_, "h.0", 64);
  const uint64_t copy_ = transient(program_, "h.0", 64, TSR_BUFFER_GATHERED, TSR_BF16);
};

TEST_F(CastAnew, IsBeforeEachRunOfUses) {
  cast();
  for (const int micro_batch : {0, 0, 1})
    use(micro_batch);
  change(home_);  // the update
  EXPECT_EQ(num_casts(), 2u);
  EXPECT_EQ(program_.actions[3].kind, uint32_t{TSR_ACTION_CAST});
}

TEST_F(CastAnew, LeavesACopyThatIsChanged) {
  cast();
  change(copy_);
  use(0);
  use(1);
  EXPECT_EQ(num_casts(), 1u);
}

TEST_F(CastAnew, LeavesACopyThatIsUsedBeforeIt) {
  use(0);
  cast();
  use(1);
  EXPECT_EQ(num_casts(), 1u);
  EXPECT_EQ(program_.actions[1].kind, uint32_t{TSR_ACTION_CAST});
}

TEST_F(CastAnew, LeavesACopyOfWhatChangesBetweenItsUses) {
  cast();
  use(0);
  change(home_);
  use(1);
  EXPECT_EQ(num_casts(), 1u);
}

TEST_F(CastAnew, LeavesPartsOfACopy) {
  cast(32);
  use(0);
  use(1);
  EXPECT_EQ(num_casts(), 1u);
}

}  // namespace
}  // namespace tessera::testing
