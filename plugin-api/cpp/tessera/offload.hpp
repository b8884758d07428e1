// SPDX-License-Identifier: Apache-2.0
// The C++ layer of offload policies: OffloadTable<YourPolicy>::kInterface is the ABI's table of a class like this one.
//
//     class Activations {
//      public:
//       static constexpr std::string_view kName = "activations";
//       explicit Activations(std::span<const tsr_option_value> options);
//       void plan(const OffloadView& view, const OffloadSink& sink) const;  // sink.leave({buffer, after, ...})
//     };
//
// A policy throws, and so does a sink that refuses an answer; the table turns it into a status. A policy is immutable
// once it is made, so plan is pure and may run on several threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/extension.hpp"
#include "tessera/offload.h"
#include "tessera/plugin.hpp"
#include "tessera/strategy.hpp"

namespace tessera {

/// The word for a visit: "forward", "backward", "loss", "update", "other".
constexpr std::string_view visit_name(uint32_t kind) {
  constexpr std::string_view kNames[] = {"unknown", "forward", "backward", "loss", "update", "other"};
  return kind <= TSR_VISIT_OTHER ? kNames[kind] : kNames[0];
}

/// What a policy may look at: the arrays of a tsr_offload_view as spans. Borrows.
class OffloadView {
 public:
  explicit OffloadView(const tsr_offload_view& v) : raw(v) {}
  const tsr_offload_view& raw;

  ProgramView program() const { return ProgramView(*raw.program); }
  std::span<const tsr_place> places() const { return {raw.places, raw.num_places}; }
  std::span<const tsr_visit> visits() const { return {raw.visits, raw.num_visits}; }
  std::span<const tsr_item> items() const { return {raw.items, raw.num_items}; }
  static std::span<const tsr_use> uses(const tsr_item& item) { return {item.uses, item.num_uses}; }
  static bool is_persistent(const tsr_item& item) { return (item.flags & TSR_BUFFER_PERSISTENT) != 0; }

  /// The place in that memory (TSR_MEMORY_*), or NULL.
  const tsr_place* find_place(uint32_t memory) const {
    const auto found = std::ranges::find(places(), memory, &tsr_place::memory);
    return found == places().end() ? nullptr : &*found;
  }

  /// The visit as messages name it: "visit 7, forward of h.0 mb=1". `visit` is below the number of visits.
  std::string describe(uint32_t visit) const {
    const tsr_visit& v = visits()[visit];
    std::string text = "visit " + std::to_string(visit) + ", " + std::string(visit_name(v.kind));
    if (v.unit >= 0) text += " of " + to_string(program().units()[static_cast<size_t>(v.unit)].name);
    return v.micro_batch < 0 ? text : text + " mb=" + std::to_string(v.micro_batch);
  }
};

/// The option `to` that policies have in common, and the memory it names (TSR_MEMORY_*).
inline constexpr tsr_option kPlaceOption =
    string_option("to", "host", "host|file", "where it is kept: host memory, or files of --offload-dir");
inline uint32_t place_option(std::span<const tsr_option_value> options) {
  return to_string(option(options, "to").s) == "file" ? TSR_MEMORY_FILE : TSR_MEMORY_HOST;
}

/// Whether the view has that place. Throws INVALID_ARGUMENT for files, which a run has when it is given a folder.
inline bool has_place(const OffloadView& view, uint32_t memory) {
  if (view.find_place(memory)) return true;
  if (memory == TSR_MEMORY_FILE)
    throw Error(TSR_E_INVALID_ARGUMENT, "to=file needs --offload-dir FOLDER, on a local disk");
  return false;
}

/// Whether it pays to let the item leave after its use of that number: the next use is more than ahead + linger + 1
/// visits away, since its memory would be free for no visit otherwise; or both are updates, each of which works on a
/// chunk's range alone, so that the next chunk comes in beside it. After its last use a persistent item leaves.
inline bool leaves_after(const OffloadView& view, const tsr_item& item, uint64_t use, uint32_t ahead, uint32_t linger) {
  if (use + 1 == item.num_uses) return OffloadView::is_persistent(item);
  const uint32_t visit = item.uses[use].visit, next = item.uses[use + 1].visit;
  const auto is_update = [&](uint32_t v) { return view.visits()[v].kind == TSR_VISIT_UPDATE; };
  return next - visit > uint64_t{ahead} + linger + 1 || (is_update(visit) && is_update(next));
}

/// The option `update` that policies have in common, and whether updates run on the host. Throws INVALID_ARGUMENT where
/// they cannot: their operands must be in host memory. `policy` is its name.
inline constexpr tsr_option kUpdateOption =
    string_option("update", "device", "device|host",
                  "where squares are summed and the optimizer runs: on the device, or on the host");
inline bool update_option(std::string_view policy, std::span<const tsr_option_value> options) {
  if (to_string(option(options, "update").s) != "host") return false;
  if (place_option(options) != TSR_MEMORY_HOST)
    throw Error(
        TSR_E_INVALID_ARGUMENT,
        "--" + std::string(policy) + ".update=host works on host memory; with to=file the update is on the device");
  return true;
}

/// Takes answers. An answer that the host refuses throws Error.
class OffloadSink {
 public:
  explicit OffloadSink(const tsr_offload_sink& sink) : sink_(sink) {}
  void leave(const tsr_leave& answer) const { call(sink_.leave, sink_.ctx, &answer); }
  /// Throws UNSUPPORTED where the host runs no actions.
  void run_on_host(uint64_t action) const {
    if (!TSR_HAS_FN(&sink_, tsr_offload_sink, run_on_host))
      throw Error(TSR_E_UNSUPPORTED, "this host runs no actions on its own processor; give update=device");
    call(sink_.run_on_host, sink_.ctx, action);
  }

 private:
  const tsr_offload_sink& sink_;
};

/// The updates that a policy runs on the host: of homes whose value, gradient and state are all items.
class HostUpdates {
 public:
  /// `takes(value)`: whether the homes in the buffer `value` are updated on the host; asked once for each.
  template <class Takes>
  HostUpdates(const OffloadView& view, Takes&& takes) : view_(view) {
    std::map<uint64_t, bool> taken;
    for (const tsr_action& action : view.program().actions())
      if (const uint64_t value = operand(action, TSR_ROLE_DESTINATION);
          action.kind == TSR_ACTION_OPTIMIZER && value && has_items_only(action)) {
        const auto [found, is_new] = taken.try_emplace(value, false);
        if (is_new) found->second = takes(value);
        if (found->second) add(action);
      }
    for (const tsr_action& action : view.program().actions())
      if (action.kind == TSR_ACTION_SUM_SQUARES && homes_.contains(action.home) && has_items_only(action)) add(action);
  }

  bool uses(uint64_t buffer) const { return buffers_.contains(buffer); }
  /// Whether the item, which these updates use, leaves after its use of that number: an update comes next, or has just
  /// been, or it is the last use.
  bool leaves_after(const tsr_item& item, uint64_t use) const {
    if (use + 1 == item.num_uses) return OffloadView::is_persistent(item);
    return is_update(item, use) || is_update(item, use + 1);
  }
  /// To be called when the items have left.
  void run(const OffloadSink& sink) const {
    for (const uint64_t action : actions_)
      sink.run_on_host(action);
  }

 private:
  static std::span<const tsr_binding> bindings(const tsr_action& action) {
    return {action.bindings, action.num_bindings};
  }
  static uint64_t operand(const tsr_action& action, uint32_t role) {
    for (const tsr_binding& b : bindings(action))
      if (TSR_SLOT_ROLE(b.slot) == role) return b.buffer;
    return 0;
  }
  /// Whether all operands are items that may be in host memory by then: used before the updates, or resting.
  bool has_items_only(const tsr_action& action) const {
    return std::ranges::all_of(bindings(action), [&](const tsr_binding& b) {
      if (TSR_SLOT_ROLE(b.slot) == TSR_ROLE_SCALAR) return true;
      const auto item = std::ranges::lower_bound(view_.items(), b.buffer, {}, &tsr_item::buffer);
      if (item == view_.items().end() || item->buffer != b.buffer) return false;
      return OffloadView::is_persistent(*item) || !is_update(*item, 0);
    });
  }
  bool is_update(const tsr_item& item, uint64_t use) const {
    return view_.visits()[item.uses[use].visit].kind == TSR_VISIT_UPDATE;
  }
  void add(const tsr_action& action) {
    actions_.push_back(action.id);
    homes_.insert(action.home);
    for (const tsr_binding& b : bindings(action))
      if (TSR_SLOT_ROLE(b.slot) != TSR_ROLE_SCALAR) buffers_.insert(b.buffer);
  }

  const OffloadView view_;
  std::vector<uint64_t> actions_;
  std::set<uint64_t> homes_, buffers_;
};

/// Takes whole items so that `fraction` of the bytes offered so far are taken, within one item of that: what leaves is
/// spread evenly over the order of the offers.
class Share {
 public:
  explicit Share(double fraction) : fraction_(fraction) {}
  bool takes(uint64_t num_bytes) {
    const auto offered = static_cast<double>(num_bytes);
    wanted_ += fraction_ * offered;
    if (wanted_ - taken_ < offered / 2) return false;
    taken_ += offered;
    return true;
  }

 private:
  double fraction_, wanted_ = 0, taken_ = 0;
};

/// The table of a policy class `P(std::span<const tsr_option_value> options)` with `static constexpr std::string_view
/// kName` and a const `plan`; kFlags: TSR_OFFLOAD_*. It may have a `static const void* get_extension(std::string_view
/// id) noexcept`.
template <class P, uint32_t kFlags = 0>
struct OffloadTable {
  static P* self(tsr_offload* policy) { return reinterpret_cast<P*>(policy); }

  static tsr_status create(const tsr_offload_create_args* args, tsr_offload** result, tsr_error* err) noexcept {
    return guard(err, P::kName, [&] {
      require_size("create: tsr_offload_create_args", args->struct_size,
                   TSR_END_OF(tsr_offload_create_args, num_options));
      auto made = std::make_unique<P>(std::span<const tsr_option_value>(args->options, args->num_options));
      *result = reinterpret_cast<tsr_offload*>(made.release());
    });
  }
  static void destroy(tsr_offload* policy) noexcept { delete self(policy); }
  static tsr_status plan(tsr_offload* policy, const tsr_offload_view* v, const tsr_offload_sink* sink,
                         tsr_error* err) noexcept {
    return guard(err, P::kName, [&] {
      require_size("plan: tsr_offload_view", v->struct_size, TSR_END_OF(tsr_offload_view, num_items));
      require_size("plan: tsr_program_view", v->program->struct_size, TSR_END_OF(tsr_program_view, optimizer));
      require_size("plan: tsr_offload_sink", sink->struct_size, TSR_END_OF(tsr_offload_sink, leave));
      std::as_const(*self(policy)).plan(OffloadView(*v), OffloadSink(*sink));
    });
  }
  static const void* get_extension(tsr_str id) noexcept { return extension_of<P>(id); }

  static constexpr tsr_offload_interface kInterface = {
      sizeof(tsr_offload_interface), kFlags, create, destroy, plan, get_extension};
};

}  // namespace tessera
