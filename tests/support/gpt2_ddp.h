// The programs of a small GPT-2 under ddp, as the host makes them, stage by stage: for tests that break one of them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compile/edit/pass_runner.h"
#include "cpu-device/device.h"
#include "ddp.h"
#include "memory/memory_plan.h"
#include "model/gpt2/gpt2.h"
#include "passes/build_program.h"
#include "passes/dependencies.h"
#include "passes/finalize.h"
#include "passes/zero_pads.h"

namespace tessera::testing {
using namespace host;

/// Two blocks, and buckets so small that several are in flight at once.
class Gpt2Ddp {
 public:
  explicit Gpt2Ddp(int num_ranks, uint32_t reduce_every = TSR_EVERY_STEP, uint32_t num_micro_batches = 2)
      : model_(make_gpt2({.num_layers = 2, .num_heads = 2, .embed = 16, .vocab = 48, .positions = 8, .ffn = 32},
                         {.batch = 2, .seq = 8, .loss_scale = 1.0 / 32})),
        mesh_({{"dp", num_ranks, TSR_SPLITS_BATCH}}) {
    step_config_.num_micro_batches = num_micro_batches;
    step_config_.reduce_every = reduce_every;
  }

  const Mesh& mesh() const { return mesh_; }

  Program base(int rank, uint32_t purpose = TSR_PURPOSE_STEP) const {
    return build_program(model_, mesh_, mesh_.coordinates(rank), step_config_, {}, purpose,
                         [](const tsr_op& op) { return cpu::describe(op); });
  }

  /// After the pass, before the host finishes it.
  Program lowered(int rank, uint32_t purpose = TSR_PURPOSE_STEP) const {
    using Table = StrategyTable<ddp::Ddp, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;
    tsr_option_value bucket{};
    bucket.name = str("bucket-mb");
    bucket.d = 2048.0 / (1 << 20);
    ddp::Ddp pass("dp", {&bucket, 1});
    Strategy& strategy = pass;
    Program program = base(rank, purpose);
    run_pass(program, {"ddp", 0, &Table::kInterface, reinterpret_cast<tsr_strategy*>(&strategy)},
             [](const tsr_op& op) { return cpu::describe(op); });
    return program;
  }

  /// Complete but for dependencies and memory.
  Program finished(int rank, uint32_t purpose = TSR_PURPOSE_STEP) const {
    Program program = lowered(rank, purpose);
    finalize_program(program);
    zero_pads(program);
    return program;
  }

  std::vector<Program> all_finished(uint32_t purpose = TSR_PURPOSE_STEP) const {
    std::vector<Program> ranks;
    for (int rank = 0; rank < mesh_.num_ranks(); ++rank)
      ranks.push_back(finished(rank, purpose));
    return ranks;
  }

 private:
  Model model_;
  Mesh mesh_;
  StepConfig step_config_;
};

/// Dependencies and addresses, as the host gives them.
inline MemoryPlan plan(Program& program) {
  derive_dependencies(program);
  Program* programs[] = {&program};
  return plan_memory(programs)[0];
}

/// Index of the n-th action of a kind on a stream of that name ("" : any); the number of actions if there is none.
inline size_t nth_action(const Program& program, uint32_t kind, std::string_view stream = "", size_t n = 0) {
  for (size_t i = 0; i < program.actions.size(); ++i) {
    const Action& action = program.actions[i];
    if (action.kind != kind || (!stream.empty() && program.streams[action.stream].name != stream)) continue;
    if (n-- == 0) return i;
  }
  return program.actions.size();
}

}  // namespace tessera::testing
