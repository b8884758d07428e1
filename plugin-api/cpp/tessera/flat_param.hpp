// SPDX-License-Identifier: Apache-2.0
// Flat parameters: the homes that share one buffer, and the groups of them that a strategy unshards and reduces
// together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tessera/inserter.hpp"

namespace tessera::storage {

/// The homes whose values share one buffer, laid out by the host one after another. Every role has its own buffer with
/// the same layout.
struct FlatParam {
  const tsr_buffer* value = nullptr;
  const tsr_buffer* copy =
      nullptr;  ///< read by compute actions instead of `value`, from which the action `cast` makes it; NULL: none
  uint64_t cast = 0;
  uint64_t gradient = 0;                ///< buffer; 0: none
  std::map<uint32_t, uint64_t> states;  ///< buffers of all other roles, by number
  std::vector<const tsr_home*> homes;   ///< ascending offsets

  uint64_t num_elements() const { return value->num_elements; }
  /// What compute actions read.
  const tsr_buffer& computed_with() const { return copy ? *copy : *value; }
};

namespace detail {

[[noreturn]] inline void refuse_split(const std::string& name) {
  throw Error(TSR_E_UNSUPPORTED, "the parameters of " + name +
                                     " are already split by the strategy of another axis, and can be split only once; "
                                     "split them on one axis, and give the others a strategy that splits none, such as "
                                     "ddp: --strategy replicate=ddp,shard=fsdp");
}

/// Finds the casts to the dtype of compute (bf16, fp16), and refuses any other reader: once the values are slices, an
/// action that reads them whole would read past its slice. Exceptions are compute actions, which will read unsharded
/// copies, and optimizers, which follow their home.
inline void find_copies(const ProgramView& view, std::map<uint64_t, FlatParam>& by_value) {
  for (const tsr_action& action : view.actions()) {
    if (is_compute(action) || action.kind == TSR_ACTION_OPTIMIZER) continue;
    for (const tsr_binding& b : ProgramView::bindings(action)) {
      const auto found = by_value.find(b.buffer);
      if (found == by_value.end()) continue;
      FlatParam& param = found->second;
      const tsr_binding* to = ProgramView::find_binding(action, kDestination);
      const bool is_whole_cast = action.kind == TSR_ACTION_CAST && b.slot == kSource && to &&
                                 b.num_elements == param.num_elements() && !param.copy;
      if (!is_whole_cast) refuse_split(to_string(param.value->name));
      param.copy = &view.buffer(to->buffer);
      param.cast = action.id;
    }
  }
}

/// All roles of a home are at its value's offset, so that a slice of the flat parameter has the same elements in every
/// role.
inline void add_home(FlatParam& param, const tsr_home& home) {
  for (const tsr_home_role& role : std::span(home.roles, home.num_roles)) {
    if (role.number == TSR_HOME_VALUE) continue;
    uint64_t& id = role.number == TSR_HOME_GRADIENT ? param.gradient : param.states[role.number];
    if (role.offset != role_of(home, TSR_HOME_VALUE).offset || (id && id != role.buffer))
      refuse_split(to_string(home.name));  // roles at different offsets: another strategy has split it
    id = role.buffer;
  }
  param.homes.push_back(&home);
}

}  // namespace detail

/// What the name of a role's buffer ends in: " m", " v", " role 30".
inline std::string state_suffix(const ProgramView& view, uint32_t number) {
  const uint32_t first = TSR_HOME_STATE(0u);
  const bool is_named = number >= first && number - first < view.raw.num_states;
  return " " + (is_named ? to_string(view.raw.states[number - first]) : "role " + std::to_string(number));
}

/// The flat parameters of a program, in order of their buffers, for strategies that split them; those that only sum
/// gradients ask gradients(). Throws UNSUPPORTED when another pass has split them already, and for slices that must be
/// cut at multiples.
inline std::vector<FlatParam> flat_params(const ProgramView& view) {
  if (view.raw.slice_granule != 1)
    throw Error(TSR_E_UNSUPPORTED, "slices of homes must be cut at multiples of " +
                                       std::to_string(view.raw.slice_granule) + " elements, which it cannot do");
  std::map<uint64_t, FlatParam> by_value;
  for (const tsr_home& home : view.homes()) {
    const uint64_t value = role_of(home, TSR_HOME_VALUE).buffer;
    if (!value) continue;
    FlatParam& param = by_value[value];
    param.value = &view.buffer(value);
    detail::add_home(param, home);
  }
  detail::find_copies(view, by_value);
  std::vector<FlatParam> params;
  for (auto& [id, param] : by_value) {
    std::ranges::stable_sort(param.homes, {}, [](const tsr_home* h) { return role_of(*h, TSR_HOME_VALUE).offset; });
    params.push_back(std::move(param));
  }
  return params;
}

/// Whether a parameter of it is replicated on listed coordinates of an axis (a tied embedding on two stages): those
/// ranks sum its gradient together, so it must not share a group with parameters that are on one of them only. A
/// parameter without an entry is replicated over all coordinates and does not count.
inline bool is_on_several_stages(const ProgramView& view, const FlatParam& param) {
  const auto is_of_flat = [&](int32_t parameter) {
    return std::ranges::any_of(param.homes, [&](const tsr_home* home) {
      return std::ranges::any_of(std::span(home->pieces, home->num_pieces),
                                 [&](const tsr_piece& piece) { return piece.parameter == parameter; });
    });
  };
  return std::ranges::any_of(view.layout(), [&](const tsr_layout_entry& entry) {
    return entry.kind == TSR_LAYOUT_REPLICATED && entry.num_coordinates > 1 && is_of_flat(entry.parameter);
  });
}

/// Flat parameters that are unsharded and reduced together, one after another: params[i] starts at `base[i]`. Larger
/// groups mean fewer, larger collectives and more memory at a time.
struct ParamGroup {
  std::string name;
  std::vector<FlatParam> params;
  std::vector<uint64_t> base;
  uint64_t num_elements = 0;

  void add(const FlatParam& param);
  const FlatParam& first() const { return params.front(); }
  bool trains() const { return !first().states.empty() || first().gradient != 0; }
  std::vector<uint64_t> home_ids() const;
};

inline void ParamGroup::add(const FlatParam& param) {
  if (params.empty()) name = to_string(param.value->name);
  params.push_back(param);
  base.push_back(num_elements);
  num_elements += param.num_elements();
  if (params.size() > 1) name = to_string(params.front().value->name) + ".." + to_string(param.value->name);
}

inline std::vector<uint64_t> ParamGroup::home_ids() const {
  std::vector<uint64_t> ids;
  for (const FlatParam& param : params)
    for (const tsr_home* home : param.homes)
      ids.push_back(home->id);
  return ids;
}

/// Removes the casts of whole flat parameters: slices are cast before they are gathered, which halves the bytes.
inline void remove_casts(const Edit& edit, std::span<const ParamGroup> groups) {
  for (const ParamGroup& group : groups)
    for (const FlatParam& param : group.params)
      if (param.cast) edit.remove(param.cast);
}

/// Every rank starts from coordinate 0's values, by one broadcast per buffer: for homes that are whole on every rank.
inline void broadcast_values(const ProgramView& view, const Edit& edit, uint32_t stream) {
  const Inserter end(edit, 0, TSR_AFTER);
  std::set<uint64_t> done;
  for (const tsr_home& home : view.homes()) {
    const uint64_t buffer = role_of(home, TSR_HOME_VALUE).buffer;
    if (!buffer || !done.insert(buffer).second) continue;
    const tsr_binding whole = BufferRange{buffer, 0, view.buffer(buffer).num_elements}.in_place();
    end.collective(TSR_ACTION_BROADCAST, stream, edit.group(view.raw.axis), {&whole, 1}, 0);
  }
}

}  // namespace tessera::storage
