// --debug-memory fills the bytes past a buffer's end before the first action of the list that uses it, and looks at
// them after the last: in all programs the others wait for the one, and the other for them. Nothing runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "passes/dependencies.h"
#include "support/compiled_job.h"
#include "support/local_job.h"
#include "tessera/strategy.hpp"
#include "verify/diagnostics.h"

namespace tessera::testing {
namespace {

/// Copies what the first segment gives on a stream of its own, while the next one computes with it.
class Copies final : public Strategy {
 public:
  static constexpr std::string_view kName = "copies";
  Copies() = default;
  Copies(std::string_view, std::span<const tsr_option_value>) {}

  void lower(const ProgramView& view, const Edit& edit) const override {
    const auto first = std::ranges::find(view.actions(), uint32_t{TSR_ACTION_FORWARD}, &tsr_action::kind);
    if (first == view.actions().end()) return;
    tsr_binding from = *ProgramView::find_binding(*first, TSR_SLOT(TSR_ROLE_OUTPUT, 0));
    from.slot = TSR_SLOT(TSR_ROLE_SOURCE, 0);
    from.mode = TSR_MODE_READ;
    const uint64_t copy = edit.add_buffer("copy", TSR_BUFFER_PLUGIN, TSR_F32, from.num_elements);
    const tsr_binding both[] = {from, {copy, 0, from.num_elements, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_WRITE}};
    edit.insert(first->id, TSR_AFTER, make_action(TSR_ACTION_COPY, TSR_STREAM_COPY_OUT), both);
  }
};

/// What may use a transient buffer before the first action that does, or after the last.
std::vector<std::string> outside_of_lives(const Program& program) {
  const VectorClocks clocks(program);
  std::map<uint64_t, std::vector<uint32_t>> uses;
  for (uint32_t i = 0; i < program.actions.size(); ++i)
    for (const Binding& binding : program.actions[i].bindings)
      if (!program.buffer(binding.buffer).persistent) uses[binding.buffer].push_back(i);
  std::vector<std::string> found;
  for (const auto& [buffer, actions] : uses)
    for (const uint32_t action : actions) {
      const bool is_after = action == actions.front() || clocks.ordered(actions.front(), action);
      const bool is_before = action == actions.back() || clocks.ordered(action, actions.back());
      if (!is_after || !is_before) found.push_back(action_text(program, action));
    }
  return found;
}

TEST(MemoryCheck, OrdersWhatUsesABufferInEveryProgram) {
  const CompiledJob job({"--model=" + golden_folder(), "--batch-size=1", "--seq-len=16"}, 1);
  Copies copies;
  Strategy& strategy = copies;
  const tsr_strategy_interface table = StrategyTable<Copies, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>::kInterface;
  const StrategyOnAxis on_axis{"copies", 0, &table, reinterpret_cast<tsr_strategy*>(&strategy)};
  CompileInput input = job.input();
  input.strategies = {&on_axis, 1};
  const RankPrograms plain = compile_rank(input, {0});
  EXPECT_NE(outside_of_lives(*plain.eval), std::vector<std::string>());
  input.guard_bytes = kBufferAlignment;
  const RankPrograms checked = compile_rank(input, {0});
  for (const Program* program : checked.all())
    EXPECT_EQ(outside_of_lives(*program), std::vector<std::string>()) << program->purpose;
}

}  // namespace
}  // namespace tessera::testing
