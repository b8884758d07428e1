// How pipeline rewrites a program: removes the work of other stages, and sends and receives values at the boundaries.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "partition.h"
#include "schedule.h"
#include "tessera/strategy.hpp"

namespace tessera::pipeline {

/// One pass over one program of one stage. Borrows all it is given.
class StagePass {
 public:
  StagePass(const ProgramView& view, const Edit& edit, Schedule schedule, const Shape& shape,
            std::span<const VirtualStage> virtual_stages);

  /// Removes the homes of parameters that this stage does not use, with their actions.
  void drop_homes(const std::vector<std::vector<int32_t>>& stages_by_layout);
  /// Orders this stage's compute by `schedule`, and inserts its sends and receives.
  void run(std::span<const ScheduledAction> schedule);

 private:
  using Key = std::tuple<bool, int, int>;  // forward, micro-batch, chunk
  /// A value of one micro-batch, or its gradient.
  using BoundaryValue = std::pair<int, int>;  // value, micro-batch
  /// Whether it is an activation (else a gradient), micro-batch, the later of the two virtual stages.
  using MessageKey = std::tuple<bool, int, int>;

  void find_boundary_values();
  /// Visits what compute actions bind to a slot of that role.
  void for_operands(uint32_t role, const std::function<void(const tsr_action&, const tsr_binding&)>& visit);
  const tsr_segment& segment_of(const tsr_action& action) const;
  int32_t with_gradient_of(int32_t value) const;
  void sort_actions();
  void sort_compute(const tsr_action& action);
  void sort_gradient_add(const tsr_action& action);
  void keep_casts_that_are_read(const std::vector<const tsr_action*>& casts);
  int virtual_stage_of(int segment) const;
  int last_virtual_stage() const { return static_cast<int>(virtual_stages_.size()) - 1; }
  int stage() const { return view_.axis().coordinate; }
  static Key key(const ScheduledAction& scheduled) {
    return {scheduled.is_forward, scheduled.micro_batch, scheduled.chunk};
  }

  void append_receives(const ScheduledAction& scheduled);
  void append_compute(const ScheduledAction& scheduled);
  uint64_t message(uint32_t kind, bool is_activation, int from_index, int to_index, const tsr_binding& what,
                   const BoundaryValue& boundary_value);
  void wait_for_answered_sends();
  std::optional<MessageKey> next_activation_after(int micro_batch, int virtual_stage) const;

  const ProgramView& view_;
  const Edit& edit_;
  const Schedule schedule_;
  const Shape& shape_;
  std::span<const VirtualStage> virtual_stages_;
  std::set<uint64_t> dropped_homes_;
  std::map<BoundaryValue, tsr_binding> activations_, gradients_;  // whole buffers, by what their producer binds
  std::map<Key, std::vector<const tsr_action*>> actions_of_;
  std::vector<const tsr_action*> before_, after_;  // the scheduled ones
  std::vector<uint64_t> order_;
  std::map<MessageKey, uint64_t> sends_, receives_;  // actions
};

}  // namespace tessera::pipeline
