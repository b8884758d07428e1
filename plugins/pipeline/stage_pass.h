// How pipeline rewrites a program: what other stages do is removed, what passes between them sent and received.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "schedule.h"
#include "stages.h"
#include "tessera/strategy.hpp"

namespace tessera::pipeline {

/// One pass over one program of one stage. Borrows all it is given.
class StagePass {
 public:
  StagePass(const ProgramView& view, const Edit& edit, Schedule schedule, const Shape& shape,
            std::span<const Part> parts);

  /// Homes of parameters that this stage does not use go, with all that is done to them.
  void drop_homes(const std::vector<std::vector<int32_t>>& stages_by_layout);
  /// Keeps this stage's compute, in the order of `items`, with what it sends and receives.
  void run(std::span<const Item> items);

 private:
  using Key = std::tuple<bool, int, int>;  // forward, micro-batch, chunk
  /// A value of one micro-batch, or its gradient.
  using Crossing = std::pair<int, int>;  // value, micro-batch
  /// Whether it is an activation (else a gradient), micro-batch, the later of the two parts.
  using Message = std::tuple<bool, int, int>;

  void find_crossings();
  void sort_actions();
  void sort_compute(const tsr_action& action);
  void sort_gradient_add(const tsr_action& action);
  void keep_casts_that_are_read(const std::vector<const tsr_action*>& casts);
  int part_of(int segment) const;
  int last_part() const { return static_cast<int>(parts_.size()) - 1; }
  int stage() const { return view_.axis().coordinate; }
  static Key key(const Item& item) { return {item.is_forward, item.micro_batch, item.chunk}; }

  void append_receives(const Item& item);
  void append_item(const Item& item);
  uint64_t message(uint32_t kind, bool is_activation, int from_part, int to_part, const tsr_binding& what,
                   const Crossing& crossing);
  void wait_for_answered_sends();
  std::optional<Message> next_activation_after(int micro_batch, int part) const;

  const ProgramView& view_;
  const Edit& edit_;
  const Schedule schedule_;
  const Shape& shape_;
  std::span<const Part> parts_;
  std::set<uint64_t> dropped_homes_;
  std::map<Crossing, tsr_binding> activations_, gradients_;  // whole buffers, by what their producer binds
  std::map<Key, std::vector<const tsr_action*>> of_item_;
  std::vector<const tsr_action*> before_, after_;  // all items
  std::vector<uint64_t> order_;
  std::map<Message, uint64_t> sends_, receives_;  // actions
};

}  // namespace tessera::pipeline
