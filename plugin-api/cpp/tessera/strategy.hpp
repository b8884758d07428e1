// SPDX-License-Identifier: Apache-2.0
// The C++ layer of strategies: derive from Strategy, and StrategyTable<YourStrategy, ...>::kInterface is the ABI's
// table.
//
//     class Ddp final : public Strategy {
//       static constexpr std::string_view kName = "ddp";
//       Ddp(std::string_view axis, std::span<const tsr_option_value> options);
//       void lower(const ProgramView& view, const Edit& edit) const override;   // inserts its collectives
//     };
//
// One that needs the host, for its log, takes `const tsr_strategy_create_args&` instead, and makes a Host of it.
// A pass throws; the table turns it into a status, and the host drops the edits. So a pass needs no clean-up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tessera/extension.hpp"
#include "tessera/plugin.hpp"
#include "tessera/strategy.h"

namespace tessera {

inline constexpr uint32_t kSource = TSR_SLOT(TSR_ROLE_SOURCE, 0);
inline constexpr uint32_t kDestination = TSR_SLOT(TSR_ROLE_DESTINATION, 0);

/// Whether the action runs a segment of the model: forward, recompute, backward, loss.
inline bool is_compute(const tsr_action& action) {
  return action.kind >= TSR_ACTION_FORWARD && action.kind <= TSR_ACTION_LOSS;
}

/// The role of a home with that number; buffer 0: the home has none.
inline const tsr_home_role& role_of(const tsr_home& home, uint32_t number) {
  static constexpr tsr_home_role kNone = {0, 1, 0, 0, 0};
  const std::span<const tsr_home_role> roles(home.roles, home.num_roles);
  const auto found = std::ranges::find(roles, number, &tsr_home_role::number);
  return found == roles.end() ? kNone : *found;
}

/// What a pass may look at: the arrays of a tsr_program_view as spans. Borrows.
class ProgramView {
 public:
  explicit ProgramView(const tsr_program_view& v) : raw(v) {}
  const tsr_program_view& raw;

  const tsr_axis& axis() const { return raw.axes[raw.axis]; }
  std::span<const tsr_axis> axes() const { return {raw.axes, raw.num_axes}; }
  std::span<const tsr_unit> units() const { return {raw.units, raw.num_units}; }
  std::span<const tsr_parameter> parameters() const { return {raw.parameters, raw.num_parameters}; }
  std::span<const tsr_value> values() const { return {raw.values, raw.num_values}; }
  std::span<const tsr_segment> segments() const { return {raw.segments, raw.num_segments}; }
  std::span<const tsr_buffer> buffers() const { return {raw.buffers, raw.num_buffers}; }
  std::span<const tsr_home> homes() const { return {raw.homes, raw.num_homes}; }
  std::span<const tsr_action> actions() const { return {raw.actions, raw.num_actions}; }
  std::span<const tsr_layout_entry> layout() const { return {raw.layout, raw.num_layout_entries}; }
  std::span<const tsr_stream_info> streams() const { return {raw.streams, raw.num_streams}; }
  std::span<const tsr_group> groups() const { return {raw.groups, raw.num_groups}; }
  std::span<const tsr_strategy_info> strategies() const { return {raw.strategies, raw.num_strategies}; }
  std::span<const tsr_str> states() const { return {raw.states, raw.num_states}; }
  static std::span<const tsr_binding> bindings(const tsr_action& action) {
    return {action.bindings, action.num_bindings};
  }
  /// The operand in that slot, or NULL.
  static const tsr_binding* find_binding(const tsr_action& action, uint32_t slot) {
    const auto found = std::ranges::find(bindings(action), slot, &tsr_binding::slot);
    return found == bindings(action).end() ? nullptr : &*found;
  }
  /// The buffer with that id, which exists: ids ascend in the array.
  const tsr_buffer& buffer(uint64_t id) const { return *std::ranges::lower_bound(buffers(), id, {}, &tsr_buffer::id); }
};

/// The operands of a CALL, in the order of its bindings.
inline std::span<const tsr_tensor_view> operands(const tsr_call& call) {
  return {call.operands, call.num_operands};
}

/// An action with every unused field as the ABI wants it.
inline tsr_action make_action(uint32_t kind, uint32_t stream) {
  tsr_action action{};
  action.kind = kind;
  action.stream = stream;
  action.segment = action.micro_batch = action.group = action.peer = action.strategy = -1;
  return action;
}

/// The edit table with exceptions instead of statuses: each function throws what tsr_edit lists for it. Borrows; texts
/// are copied by the host.
class Edit {
 public:
  explicit Edit(const tsr_edit& edit) : edit_(edit) {}

  uint32_t stream(int axis, std::string_view lane) const {
    uint32_t index = 0;
    call(edit_.add_stream, edit_.ctx, axis, str(lane), &index);
    return index;
  }
  /// The ranks at these coordinates of the axis, ascending; none listed: all.
  int32_t group(int axis, std::span<const int32_t> coordinates = {}) const {
    const tsr_group listed{axis, static_cast<uint32_t>(coordinates.size()), coordinates.data()};
    int32_t index = 0;
    call(edit_.add_group, edit_.ctx, &listed, &index);
    return index;
  }
  uint64_t add_buffer(std::string_view name, uint32_t kind, tsr_dtype dtype, uint64_t num_elements,
                      bool persistent = false, uint32_t memory = TSR_MEMORY_DEVICE) const {
    const tsr_buffer buffer{
        0, num_elements, str(name), kind, memory, dtype, persistent ? TSR_BUFFER_PERSISTENT : 0u, -1, 0};
    uint64_t id = 0;
    call(edit_.add_buffer, edit_.ctx, &buffer, &id);
    return id;
  }
  /// Copies `bindings`; `action` may be reused. Returns the new action's id.
  uint64_t insert(uint64_t anchor, uint32_t where, tsr_action action, std::span<const tsr_binding> bindings) const {
    action.bindings = bindings.data();
    action.num_bindings = bindings.size();
    uint64_t id = 0;
    call(edit_.insert, edit_.ctx, anchor, where, &action, &id);
    return id;
  }
  void remove(uint64_t action) const { call(edit_.remove, edit_.ctx, action); }
  void bind(uint64_t action, const tsr_binding& binding) const { call(edit_.bind, edit_.ctx, action, &binding); }
  void rebind(uint64_t from, uint64_t to, uint64_t offset) const { call(edit_.rebind, edit_.ctx, from, to, offset); }
  void set_role(uint64_t home, const tsr_home_role& role) const { call(edit_.set_role, edit_.ctx, home, &role); }
  /// `replacement` null: by none; returns the new home's id.
  uint64_t replace_homes(std::span<const uint64_t> homes, const tsr_home* replacement) const {
    uint64_t id = 0;
    call(edit_.replace_homes, edit_.ctx, homes.data(), homes.size(), replacement, &id);
    return id;
  }
  /// The ids of the halves; 0: this half has nothing to do.
  struct Halves {
    uint64_t input = 0, weight = 0;
  };
  Halves split_backward(uint64_t action) const {
    Halves halves;
    call(edit_.split_backward, edit_.ctx, action, &halves.input, &halves.weight);
    return halves;
  }
  /// Schedule passes: the new order of all actions.
  void order(std::span<const uint64_t> actions) const { call(edit_.order, edit_.ctx, actions.data(), actions.size()); }
  /// `action` starts when `earlier`, which comes before it in the list, has finished.
  void wait_for(uint64_t action, uint64_t earlier) const { call(edit_.wait_for, edit_.ctx, action, earlier); }
  void collect_garbage() const { call(edit_.collect_garbage, edit_.ctx); }
  /// The action that sums a home's gradient over stages, inserted if it is not there; 0: none is needed.
  uint64_t complete(uint64_t home) const {
    uint64_t action = 0;
    call(edit_.complete, edit_.ctx, home, &action);
    return action;
  }
  /// What becomes of a persistent buffer of the strategy's own when a run is resumed (TSR_ON_CHANGE_*).
  void describe_state(uint64_t buffer, uint32_t version, uint32_t on_change) const {
    const tsr_state_description state{sizeof state, version, on_change, 0};
    call(edit_.describe_state, edit_.ctx, buffer, &state);
  }
  const tsr_edit& raw() const { return edit_; }

 private:
  const tsr_edit& edit_;
};

/// Takes the entries of a layout; one that the host refuses throws.
class LayoutSink {
 public:
  explicit LayoutSink(const tsr_layout_sink& sink) : sink_(sink) {}
  void add_entry(const tsr_layout_entry& entry) const { call(sink_.add_entry, sink_.ctx, &entry); }

 private:
  const tsr_layout_sink& sink_;
};

/// One strategy on one axis. Constructed from (axis name, resolved options); immutable afterwards, so that layout and
/// lower are pure and may run on several threads: the host calls them with the coordinates of other ranks too, to plan
/// and check their programs without asking them.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Whether the program differs with this axis's coordinate; if not, one coordinate is planned for all.
  virtual bool depends_on_coordinate() const { return false; }
  /// How many step programs the run alternates between: view.raw.variant is step % variants.
  virtual uint32_t num_variants() const { return 1; }
  /// States how the axis cuts each parameter; the default is replicated.
  virtual void layout(const ProgramView&, const LayoutSink&) const {}
  virtual void lower(const ProgramView& view, const Edit& edit) const = 0;
  virtual void call_action(const tsr_call& call) const {
    throw Error(TSR_E_UNSUPPORTED, "this strategy has no call action " + std::to_string(call.tag));
  }
};

/// The table of a strategy class `S(std::string_view axis, std::span<const tsr_option_value> options)`, or
/// `S(const tsr_strategy_create_args&)`, with `static constexpr std::string_view kName`. It may have a
/// `static const void* get_extension(std::string_view id) noexcept`.
template <class S, uint32_t kRole, uint32_t kSplits, uint32_t kFlags = 0>
struct StrategyTable {
  static Strategy* self(tsr_strategy* s) { return reinterpret_cast<Strategy*>(s); }

  static tsr_status create(const tsr_strategy_create_args* args, tsr_strategy** result, tsr_error* err) noexcept {
    return guard(err, S::kName, [&] {
      require_size("create: tsr_strategy_create_args", args->struct_size,
                   TSR_END_OF(tsr_strategy_create_args, num_options));
      *result = reinterpret_cast<tsr_strategy*>(make(*args).release());
    });
  }
  static std::unique_ptr<Strategy> make(const tsr_strategy_create_args& args) {
    if constexpr (std::is_constructible_v<S, const tsr_strategy_create_args&>)
      return std::make_unique<S>(args);
    else
      return std::make_unique<S>(view(args.axis), std::span<const tsr_option_value>(args.options, args.num_options));
  }
  static void destroy(tsr_strategy* s) noexcept { delete self(s); }
  static uint32_t num_variants(tsr_strategy* s) noexcept { return self(s)->num_variants(); }
  static uint32_t depends_on_coordinate(tsr_strategy* s) noexcept { return self(s)->depends_on_coordinate(); }
  static tsr_status layout(tsr_strategy* s, const tsr_program_view* v, const tsr_layout_sink* sink,
                           tsr_error* err) noexcept {
    return guard(err, S::kName, [&] {
      require_size("layout: tsr_program_view", v->struct_size, TSR_END_OF(tsr_program_view, optimizer));
      require_size("layout: tsr_layout_sink", sink->struct_size, TSR_END_OF(tsr_layout_sink, add_entry));
      self(s)->layout(ProgramView(*v), LayoutSink(*sink));
    });
  }
  static tsr_status lower(tsr_strategy* s, const tsr_program_view* v, const tsr_edit* edit, tsr_error* err) noexcept {
    return guard(err, S::kName, [&] {
      require_size("lower: tsr_program_view", v->struct_size, TSR_END_OF(tsr_program_view, optimizer));
      require_size("lower: tsr_edit", edit->struct_size, TSR_END_OF(tsr_edit, complete));
      if (v->purpose < TSR_PURPOSE_INIT || v->purpose > TSR_PURPOSE_EVAL)
        throw Error(TSR_E_UNSUPPORTED, "the program has the unknown purpose " + std::to_string(v->purpose));
      if (v->reduce_every < TSR_EVERY_STEP || v->reduce_every > TSR_EVERY_MICRO_BATCH)
        throw Error(TSR_E_UNSUPPORTED,
                    "the program reduces gradients at an unknown point, " + std::to_string(v->reduce_every));
      self(s)->lower(ProgramView(*v), Edit(*edit));
    });
  }
  static tsr_status call_action(tsr_strategy* s, const tsr_call* call, tsr_error* err) noexcept {
    return guard(err, S::kName, [&] {
      require_size("call: tsr_call", call->struct_size, TSR_END_OF(tsr_call, optimizer));
      self(s)->call_action(*call);
    });
  }
  static const void* get_extension(tsr_str id) noexcept { return extension_of<S>(id); }

  static constexpr tsr_strategy_interface kInterface = {
      .struct_size = sizeof(tsr_strategy_interface),
      .role = kRole,
      .splits = kSplits,
      .flags = kFlags,
      .create = create,
      .destroy = destroy,
      .num_variants = num_variants,
      .depends_on_coordinate = depends_on_coordinate,
      .layout = layout,
      .lower = lower,
      .call = call_action,
      .get_extension = get_extension,
  };
};

}  // namespace tessera
