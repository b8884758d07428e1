// The programs of a small GPT-2 under the pipeline strategy, compiled in the test without plugins.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "compile/declared_layout.h"
#include "compile/edit/program_snapshot.h"
#include "cpu-device/device.h"
#include "model/gpt2/gpt2.h"
#include "pipeline.h"

namespace tessera::testing {
using namespace host;

struct PipelineOptions {
  int num_stages = 2;
  uint32_t num_micro_batches = 4;
  std::string schedule = "1f1b";
  int num_chunks = 1;
  std::string cut = "even";
};

class PipelinePrograms {
 public:
  explicit PipelinePrograms(PipelineOptions options, int num_blocks = 4)
      : options_(std::move(options)),
        model_(
            make_gpt2({.num_layers = num_blocks, .num_heads = 2, .embed = 16, .vocab = 48, .positions = 8, .ffn = 64},
                      {.batch = 2, .seq = 8, .loss_scale = 1.0 / 64})),
        mesh_({{"pp", options_.num_stages, TSR_SPLITS_LAYERS}}),
        pass_("pp", values()) {
    step_config_.num_micro_batches = options_.num_micro_batches;
  }

  Model& model() { return model_; }
  const Mesh& mesh() const { return mesh_; }
  const pipeline::Pipeline& pass() const { return pass_; }

  /// All ranks', checked one by one and against one another. Throws what the compilation throws.
  JobPrograms compile() {
    const std::vector<StrategyOnAxis> strategies = {strategy()};
    CompileInput in = input(strategies);
    in.evaluates = true;
    JobPrograms job = compile_job(in);
    if (const Diagnostics diagnostics = verify_job(in, job); !diagnostics.empty())
      throw Error(TSR_E_INVALID_ARGUMENT, diagnostics.front());
    return job;
  }

  /// What the pass makes of the first stage's step, of which it sees what `change` makes.
  Program lowered(const std::function<void(Program&)>& change) {
    const DescribeOp describe = [](const tsr_op& op) { return cpu::describe(op); };
    Program program =
        build_program(model_, mesh_, mesh_.coordinates(0), step_config_, layout(), TSR_PURPOSE_STEP, describe);
    change(program);
    run_pass(program, strategy(), describe);
    return program;
  }

  Layout layout() { return DeclaredLayout(model_, mesh_, step_config_, {}, {strategy()}).at(mesh_.coordinates(0)); }

  /// As a pass sees the model, before there is a program. Borrows this object.
  template <class Use>
  auto with_view(const Use& use) const {
    Program bare;
    bare.model = &model_;
    bare.mesh = &mesh_;
    bare.coordinates = mesh_.coordinates(0);
    bare.step_config = step_config_;
    const ProgramSnapshot snapshot(bare, 0);
    return use(ProgramView(snapshot.view()));
  }

 private:
  using Table = StrategyTable<pipeline::Pipeline, TSR_STRATEGY_SCHEDULE, TSR_SPLITS_LAYERS>;

  std::vector<tsr_option_value> values() const {
    return {{str("schedule"), str(options_.schedule), 0, 0},
            {str("virtual-stages"), {}, options_.num_chunks, 0},
            {str("cut"), str(options_.cut), 0, 0}};
  }
  StrategyOnAxis strategy() {
    return {"pipeline", 0, &Table::kInterface, reinterpret_cast<tsr_strategy*>(static_cast<Strategy*>(&pass_))};
  }
  CompileInput input(std::span<const StrategyOnAxis> strategies) const {
    return {model_,
            mesh_,
            step_config_,
            strategies,
            [](const tsr_op& op) { return cpu::describe(op); },
            [](const Program&, const Action&, int) { return uint64_t{0}; },
            0};
  }

  PipelineOptions options_;
  Model model_;
  Mesh mesh_;
  pipeline::Pipeline pass_;
  StepConfig step_config_;
};

}  // namespace tessera::testing
