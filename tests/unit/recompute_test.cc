// What --recompute makes of a step program: which actions run again, into which buffers, and what is no longer kept.
#include "passes/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "compile/compile.h"
#include "compile/edit/rewriter.h"
#include "program/program_text.h"
#include "support/expect_diagnostic.h"
#include "support/gpt2_ddp.h"
#include "support/program_builder.h"
#include "support/program_parser/parse_program.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr int kBlocks = 6;
constexpr Recompute kNone, kFull{Recompute::What::blocks, 1}, kAttention{Recompute::What::attention, 1};

Recompute every(int blocks) {
  return {Recompute::What::blocks, blocks};
}

const DescribeOp kDescribe = [](const tsr_op& op) { return cpu::describe(op); };

/// ddp as a pass.
class DdpPass {
 public:
  DdpPass() : ddp_("dp", {&bucket_, 1}) {}
  StrategyOnAxis on_axis() {
    using Table = StrategyTable<ddp::Ddp, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;
    return {"ddp", 0, &Table::kInterface, reinterpret_cast<tsr_strategy*>(static_cast<Strategy*>(&ddp_))};
  }

 private:
  static tsr_option_value bucket() {
    tsr_option_value value{};
    value.name = str("bucket-mb");
    value.d = 25;
    return value;
  }
  tsr_option_value bucket_ = bucket();
  ddp::Ddp ddp_;
};

class RecomputeTest : public ::testing::Test {
 protected:
  Program base(uint32_t num_micro_batches = 2, uint32_t purpose = TSR_PURPOSE_STEP) const {
    StepConfig step_config;
    step_config.num_micro_batches = num_micro_batches;
    return build_program(model_, mesh_, mesh_.coordinates(0), step_config, {}, purpose, kDescribe);
  }
  static Program again(Program program, const Recompute& recompute) {
    program.step_config.recompute = recompute;
    recompute_forward(program, kDescribe);
    return program;
  }
  static Diagnostics check(Program program) {
    run_pass(program, DdpPass().on_axis(), kDescribe);
    finalize_program(program);
    zero_pads(program);
    const MemoryPlan memory = plan(program);
    Diagnostics diagnostics = verify_rank(program, &memory);
    std::ranges::move(verify_placement(program), std::back_inserter(diagnostics));
    return diagnostics;
  }

  /// What runs again: {micro-batch, segment}, in order.
  std::vector<std::pair<int, std::string>> made_again(const Program& program) const {
    std::vector<std::pair<int, std::string>> result;
    for (const Action& action : program.actions)
      if (action.kind == TSR_ACTION_RECOMPUTE)
        result.emplace_back(action.micro_batch, model_.segments[action.segment].name);
    return result;
  }
  std::set<int> blocks_made_again(const Program& program) const {
    std::set<int> blocks;
    for (const Action& action : program.actions)
      if (action.kind == TSR_ACTION_RECOMPUTE) blocks.insert(model_.segments[action.segment].block);
    return blocks;
  }
  size_t find(const Program& program, uint32_t kind, const std::string& segment, int mb = 0) const {
    for (size_t i = 0; i < program.actions.size(); ++i) {
      const Action& action = program.actions[i];
      if (action.kind == kind && action.segment == model_.segment(segment) && action.micro_batch == mb) return i;
    }
    ADD_FAILURE() << "no " << action_name(kind) << " " << segment;
    return 0;
  }

  Model model_ = make_gpt2({.num_layers = kBlocks, .num_heads = 2, .embed = 16, .vocab = 48, .positions = 8, .ffn = 64},
                           {.batch = 64, .seq = 8, .loss_scale = 1.0 / 32});
  Mesh mesh_{{{"dp", 2, TSR_SPLITS_BATCH}}};
};

TEST_F(RecomputeTest, NoneAndOtherProgramsStayAsTheyAre) {
  EXPECT_EQ(print_program(again(base(), kNone)), print_program(base()));
  for (const uint32_t purpose : {TSR_PURPOSE_EVAL, TSR_PURPOSE_INIT})
    EXPECT_EQ(print_program(again(base(2, purpose), kFull)), print_program(base(2, purpose)));
}

TEST_F(RecomputeTest, FullRunsWhatTheBackwardOfEachBlockNeeds) {
  const Program program = again(base(), kFull);
  std::vector<std::pair<int, std::string>> expected;
  for (int mb = 0; mb < 2; ++mb)
    for (int block = kBlocks; block-- > 0;)
      for (const char* segment : {"ln_1", "qkv", "attention", "proj", "add_ln_2", "fc_gelu"})
        expected.emplace_back(mb, "h." + std::to_string(block) + "." + segment);
  EXPECT_EQ(made_again(program), expected);  // fc_proj and add make nothing that a backward of the block reads
}

TEST_F(RecomputeTest, StandsBeforeTheFirstBackwardThatNeedsIt) {
  const Program full = again(base(), kFull);
  for (int mb = 0; mb < 2; ++mb) {
    EXPECT_EQ(find(full, TSR_ACTION_RECOMPUTE, "h.3.fc_gelu", mb) + 1,
              find(full, TSR_ACTION_BACKWARD, "h.3.fc_proj", mb));
    EXPECT_EQ(find(full, TSR_ACTION_RECOMPUTE, "h.3.ln_1", mb), find(full, TSR_ACTION_BACKWARD, "h.3.add", mb) + 1);
  }
  const Program attention = again(base(), kAttention);
  EXPECT_EQ(find(attention, TSR_ACTION_RECOMPUTE, "h.3.attention") + 1,
            find(attention, TSR_ACTION_BACKWARD, "h.3.proj"));
}

TEST_F(RecomputeTest, EveryKthBlockIsTheLastOfItsGroup) {
  EXPECT_EQ(blocks_made_again(again(base(), every(2))), (std::set<int>{1, 3, 5}));
  EXPECT_EQ(blocks_made_again(again(base(), every(4))), (std::set<int>{3}));
  EXPECT_EQ(blocks_made_again(again(base(), every(kBlocks))), (std::set<int>{kBlocks - 1}));
}

TEST_F(RecomputeTest, AttentionIsMadeAgainFromWhatQkvLeft) {
  const Program program = again(base(1), kAttention);
  EXPECT_EQ(made_again(program).size(), size_t{kBlocks});
  const Action& forward = program.actions[find(program, TSR_ACTION_FORWARD, "h.2.attention")];
  const Action& made = program.actions[find(program, TSR_ACTION_RECOMPUTE, "h.2.attention")];
  const Action& backward = program.actions[find(program, TSR_ACTION_BACKWARD, "h.2.attention")];
  const Action& proj = program.actions[find(program, TSR_ACTION_BACKWARD, "h.2.proj")];
  const uint32_t in = TSR_SLOT(TSR_ROLE_INPUT, 0), out = TSR_SLOT(TSR_ROLE_OUTPUT, 0),
                 saved = TSR_SLOT(TSR_ROLE_SAVED, 0);
  EXPECT_EQ(made.find(in)->buffer, forward.find(in)->buffer);
  EXPECT_NE(made.find(out)->buffer, forward.find(out)->buffer);
  EXPECT_EQ(backward.find(out)->buffer, made.find(out)->buffer);
  EXPECT_EQ(backward.find(saved)->buffer, made.find(saved)->buffer);
  EXPECT_EQ(proj.find(in)->buffer, made.find(out)->buffer);
  EXPECT_EQ(forward.find(saved), nullptr);
}

TEST_F(RecomputeTest, TheForwardKeepsNothingOfABlockButItsInput) {
  const Program program = again(base(1), kFull);
  const size_t loss = nth_action(program, TSR_ACTION_LOSS);
  std::set<std::string> kept;
  for (size_t i = loss; i < program.actions.size(); ++i)
    for (const Binding& b : program.actions[i].bindings)
      if (program.buffer(b.buffer).kind == TSR_BUFFER_ACTIVATION || program.buffer(b.buffer).kind == TSR_BUFFER_SAVED)
        for (size_t before = 0; before < loss; ++before)
          if (std::ranges::count(program.actions[before].bindings, b.buffer, &Binding::buffer))
            kept.insert(program.buffer(b.buffer).name);
  std::set<std::string> expected = {"ln_f mb=0", "ln_f.out mb=0"};
  for (int block = 0; block <= kBlocks; ++block)
    expected.insert("h." + std::to_string(block) + ".x mb=0");
  EXPECT_EQ(kept, expected);
}

TEST_F(RecomputeTest, NoBufferIsLeftThatNothingUses) {
  for (const Recompute& recompute : {kFull, every(2), kAttention}) {
    const Program program = again(base(), recompute);
    std::set<uint64_t> used;
    for (const Action& action : program.actions)
      for (const Binding& b : action.bindings)
        used.insert(b.buffer);
    for (const Buffer& buffer : program.buffers)
      EXPECT_TRUE(buffer.persistent || used.contains(buffer.id)) << buffer.name;
  }
}

TEST_F(RecomputeTest, ProgramsAreProvedLikeOthers) {
  EXPECT_TRUE(is_clean(check(base())));
  for (const Recompute& recompute : {kFull, every(2), every(5), kAttention})
    EXPECT_TRUE(is_clean(check(again(base(), recompute)))) << to_string(recompute);
}

TEST_F(RecomputeTest, ForgettingToRunASegmentAgainIsFound) {
  Program program = again(base(), kFull);
  program.actions.erase(program.actions.begin() +
                        static_cast<ptrdiff_t>(find(program, TSR_ACTION_RECOMPUTE, "h.4.attention", 1)));
  EXPECT_TRUE(has_diagnostic(check(program), "recompute h.4.proj mb=1 reads"));
}

TEST_F(RecomputeTest, TextsReadBack) {
  const Program program = again(base(), kFull);
  EXPECT_EQ(print_program(parse_program(print_program(program), model_, mesh_)), print_program(program));
}

/// All forwards, then the input halves of all backwards, then the weight halves: as a schedule may order them.
Program with_late_weights(const Program& program) {
  Rewriter edits(program, kDescribe, -1);
  std::vector<uint64_t> first, weights, last;
  for (const Action& action : program.actions) {
    if (action.kind == TSR_ACTION_BACKWARD) {
      const auto [input, weight] = edits.split_backward(action.id);
      if (input) first.push_back(input);
      if (weight) weights.push_back(weight);
    } else if (is_compute(action.kind) || action.kind == TSR_ACTION_ZERO) {
      first.push_back(action.id);
    } else {
      last.push_back(action.id);
    }
  }
  std::vector<uint64_t> order = first;
  order.insert(order.end(), weights.begin(), weights.end());
  order.insert(order.end(), last.begin(), last.end());
  edits.order(order);
  return edits.take();
}

TEST_F(RecomputeTest, HalvesOfABackwardWriteWhatTheWholeWrites) {
  Program program = base();
  const auto is_gradient = [](const Binding& b) { return TSR_SLOT_ROLE(b.slot) == TSR_ROLE_GRADIENT; };
  for (Action& action : program.actions)
    for (Binding& b : action.bindings)
      if (action.kind == TSR_ACTION_BACKWARD && is_gradient(b)) b.mode = TSR_MODE_WRITE;
  for (const Action& action : with_late_weights(program).actions)
    for (const Binding& b : action.bindings)
      if (action.kind == TSR_ACTION_BACKWARD_WEIGHT && is_gradient(b)) {
        EXPECT_EQ(b.mode, TSR_MODE_WRITE);
      }
}

TEST_F(RecomputeTest, FindsWhatItNeedsWhateverTheScheduleDid) {
  for (const Recompute& recompute : {kFull, every(3), kAttention}) {
    const Program program = again(with_late_weights(base()), recompute);
    EXPECT_EQ(made_again(program), made_again(again(base(), recompute))) << to_string(recompute);
    EXPECT_TRUE(is_clean(check(program))) << to_string(recompute);
  }
  const Program program = again(with_late_weights(base()), kFull);
  const uint32_t in = TSR_SLOT(TSR_ROLE_INPUT, 0), out = TSR_SLOT(TSR_ROLE_OUTPUT, 0);
  EXPECT_EQ(program.actions[find(program, TSR_ACTION_BACKWARD_WEIGHT, "h.1.qkv", 1)].find(in)->buffer,
            program.actions[find(program, TSR_ACTION_RECOMPUTE, "h.1.ln_1", 1)].find(out)->buffer);
}

TEST_F(RecomputeTest, OptionalOutputsThatNobodyNeedsAreLeftOut) {
  Program program = with_late_weights(base(1));
  std::erase_if(program.actions, [&](const Action& action) {  // as if the weight of fc_proj were frozen
    return action.kind == TSR_ACTION_BACKWARD_WEIGHT && model_.segments[action.segment].name == "h.2.fc_proj";
  });
  program = again(std::move(program), kFull);
  const Action& made = program.actions[find(program, TSR_ACTION_RECOMPUTE, "h.2.fc_gelu")];
  EXPECT_EQ(made.find(TSR_SLOT(TSR_ROLE_OUTPUT, 0)), nullptr);
  EXPECT_NE(made.find(TSR_SLOT(TSR_ROLE_SAVED, 0)), nullptr);
  EXPECT_NE(program.actions[find(program, TSR_ACTION_RECOMPUTE, "h.3.fc_gelu")].find(TSR_SLOT(TSR_ROLE_OUTPUT, 0)),
            nullptr);
}

TEST_F(RecomputeTest, WhatIsReadOutsideTheBlockIsKept) {
  Program program = base(1);
  const uint32_t out = TSR_SLOT(TSR_ROLE_OUTPUT, 0);
  const uint64_t qkv = program.actions[find(program, TSR_ACTION_FORWARD, "h.2.qkv")].find(out)->buffer;
  const uint64_t copy = transient(program, "copy", program.buffer(qkv).num_elements);
  add_action(program, TSR_ACTION_COPY, TSR_STREAM_COPY_OUT, {read(qkv), write(copy)});
  program = again(std::move(program), kFull);
  const Action& attention = program.actions[find(program, TSR_ACTION_RECOMPUTE, "h.2.attention")];
  EXPECT_EQ(attention.find(TSR_SLOT(TSR_ROLE_INPUT, 0))->buffer, qkv);
  EXPECT_FALSE(std::ranges::count(made_again(program), std::pair<int, std::string>{0, "h.2.qkv"}));
  EXPECT_TRUE(is_clean(check(program)));
}

TEST_F(RecomputeTest, WhatAnotherBlockReadsIsKept) {
  Program program = base(1);
  const uint32_t in = TSR_SLOT(TSR_ROLE_INPUT, 0), out = TSR_SLOT(TSR_ROLE_OUTPUT, 0);
  const uint64_t qkv = program.actions[find(program, TSR_ACTION_FORWARD, "h.2.qkv")].find(out)->buffer;
  for (Binding& binding : program.actions[find(program, TSR_ACTION_FORWARD, "h.3.attention")].bindings)
    if (binding.slot == in) binding.buffer = qkv;
  program = again(std::move(program), kFull);
  EXPECT_EQ(program.actions[find(program, TSR_ACTION_RECOMPUTE, "h.2.attention")].find(in)->buffer, qkv);
}

/// Bytes of what the forward of block `block` leaves for its backward, its input aside.
uint64_t kept_bytes(const Program& program, int block) {
  const std::string prefix = "h." + std::to_string(block) + ".";
  std::set<uint64_t> written;
  uint64_t num_bytes = 0;
  for (const Action& action : program.actions)
    for (const Binding& b : action.bindings) {
      const Buffer& buffer = program.buffer(b.buffer);
      if (!buffer.name.starts_with(prefix) || buffer.name.starts_with(prefix + "x")) continue;
      const bool is_backward = action.kind == TSR_ACTION_BACKWARD;
      if (action.kind == TSR_ACTION_FORWARD && buffer.kind != TSR_BUFFER_WORKSPACE) written.insert(b.buffer);
      if (is_backward && b.mode == TSR_MODE_READ && written.erase(b.buffer))
        num_bytes += (buffer.num_bytes() + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
    }
  return num_bytes;
}

TEST_F(RecomputeTest, MemoryFallsByWhatTheOtherBlocksKeep) {
  const auto live_peak = [&](const Recompute& recompute) {
    Program program = again(base(1), recompute);
    finalize_program(program);
    zero_pads(program);
    return plan(program).use.at(TSR_MEMORY_DEVICE).live_peak_bytes;
  };
  const uint64_t kept = kept_bytes(base(1), 0), none = live_peak(kNone);
  EXPECT_GT(kept, 0u);
  EXPECT_EQ(none - live_peak(kFull), (kBlocks - 1) * kept);  // the peak is in the last block's backward
  EXPECT_EQ(none - live_peak(every(2)), (kBlocks / 2 - 1) * kept);
  EXPECT_EQ(none - live_peak(every(4)), kept);
  EXPECT_LT(live_peak(kAttention), none);
}

TEST_F(RecomputeTest, RunsBeforeStorageIsSplit) {
  DdpPass pass;
  const StrategyOnAxis ddp = pass.on_axis();
  StepConfig step_config;
  step_config.num_micro_batches = 2;
  step_config.recompute = kFull;
  const DescribeCollective no_workspace = [](const Program&, const Action&, int) { return uint64_t{0}; };
  CompileInput input{model_, mesh_, step_config, {&ddp, 1}, kDescribe, no_workspace};
  input.evaluates = true;
  const JobPrograms job = compile_job(input);
  EXPECT_TRUE(is_clean(verify_job(input, job)));
  EXPECT_EQ(made_again(job.of(1).steps[0]), made_again(again(base(), kFull)));
  EXPECT_TRUE(made_again(*job.of(1).eval).empty());
}

}  // namespace
}  // namespace tessera::testing
