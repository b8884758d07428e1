// One pass over the programs of a small GPT-2, without a plugin around it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compile/edit/pass_runner.h"
#include "cpu-device/device.h"
#include "model/gpt2/gpt2.h"
#include "passes/build_program.h"
#include "tessera/strategy.hpp"

namespace tessera::testing {
using namespace host;

/// Values of declared options, as the host gives them; borrows nothing.
class OptionValues {
 public:
  struct Value {
    std::string name, text;
    int64_t number = 0;
  };
  OptionValues(std::initializer_list<Value> values) : values_(values) {
    for (const Value& value : values_)
      raw_.push_back({str(value.name), str(value.text), value.number, 0});
  }
  OptionValues(const OptionValues&) = delete;
  OptionValues& operator=(const OptionValues&) = delete;
  operator std::span<const tsr_option_value>() const { return raw_; }

 private:
  std::vector<Value> values_;
  std::vector<tsr_option_value> raw_;
};

/// Two blocks over one axis "dp"; units wte, wpe, h.0, h.1, ln_f.
class Gpt2Pass {
 public:
  explicit Gpt2Pass(int num_ranks, StepConfig step_config = {})
      : model_(make_gpt2({.num_layers = 2, .num_heads = 2, .embed = 16, .vocab = 48, .positions = 8, .ffn = 32},
                         {.batch = 2, .seq = 8, .loss_scale = 1.0 / 32, .dtype = step_config.dtype})),
        mesh_({{"dp", num_ranks, TSR_SPLITS_BATCH}}),
        step_config_(step_config) {}

  const Model& model() const { return model_; }
  Model& model() { return model_; }

  /// The program of a rank after the pass, which sees what `change` makes of the base program.
  using Change = std::function<void(Program&)>;
  Program lowered(const Strategy& strategy, int rank, uint32_t purpose = TSR_PURPOSE_STEP,
                  const Change& change = {}) const {
    using Table = StrategyTable<AnyStrategy, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH, TSR_STRATEGY_SHARDS_HOMES>;
    const auto describe = [](const tsr_op& op) { return cpu::describe(op); };
    Program program = build_program(model_, mesh_, mesh_.coordinates(rank), step_config_, {}, purpose, describe);
    if (change) change(program);
    run_pass(program,
             {"pass", 0, &Table::kInterface, reinterpret_cast<tsr_strategy*>(const_cast<Strategy*>(&strategy))},
             describe);
    return program;
  }

  /// Calls `look` as a pass over rank 0's program, of which it sees what `change` makes.
  using Look = std::function<void(const ProgramView&, const Edit&)>;
  void look_at(const Look& look, uint32_t purpose = TSR_PURPOSE_STEP, const Change& change = {}) const {
    lowered(Looker(look), 0, purpose, change);
  }

 private:
  struct AnyStrategy : Strategy {
    static constexpr std::string_view kName = "pass";
    AnyStrategy(std::string_view, std::span<const tsr_option_value>) {}
    void lower(const ProgramView&, const Edit&) const override {}
  };
  struct Looker final : Strategy {
    explicit Looker(const Look& look) : look_(look) {}
    void lower(const ProgramView& view, const Edit& edit) const override { look_(view, edit); }
    const Look& look_;
  };

  Model model_;
  Mesh mesh_;
  StepConfig step_config_;
};

}  // namespace tessera::testing
