// Each buffer of optimizer state is used by the updates of its unit's chunks, one visit a chunk, and leaves after each
// of them. What a chunk's update fetches is its own range, since only that is bound in the stay.
//
//     visit       update h.0/0   h.0/1   h.0/2   h.0/3
//     h.0 m       |--- 0 ---|
//                 |------ 1 --------|                      in device memory with ahead = 2, linger = 1
//                 |---------- 2 ------------|
//
// Gradients, if they leave too, do so after their block's backward and come back for each chunk of it.
//
// Updates on the host are of whole buffers of values, with their gradients and state.
//
// A fraction takes whole buffers, of state and of gradients each, in the order of the program. Cost: linear in the
// uses, and in homes.

#include "optimizer_state.h"

namespace tessera::optimizer_state {

OptimizerState::OptimizerState(std::span<const tsr_option_value> options)
    : place_(place_option(options)),
      fraction_(option(options, "fraction").d),
      states_(to_string(option(options, "states").s)),
      gradients_(option(options, "gradients").i != 0),
      updates_on_host_(update_option(kName, options)),
      ahead_(static_cast<uint32_t>(option(options, "ahead").i)),
      linger_(static_cast<uint32_t>(option(options, "linger").i)) {
  if (updates_on_host_ && states_ != "all")
    throw Error(TSR_E_INVALID_ARGUMENT, "update=host needs m and v on the host, and states=" + states_ +
                                            " leaves one on the device; give states=all");
}

std::set<uint64_t> OptimizerState::wanted_buffers(const OffloadView& view) const {
  std::set<uint64_t> buffers;
  for (const tsr_home& home : view.program().homes()) {
    if (states_ != "v") buffers.insert(role_of(home, TSR_HOME_M).buffer);
    if (states_ != "m") buffers.insert(role_of(home, TSR_HOME_V).buffer);
  }
  return buffers;
}

void OptimizerState::plan(const OffloadView& view, const OffloadSink& sink) const {
  if (!has_place(view, place_)) return;
  updates_on_host_ ? plan_updates(view, sink) : plan_states(view, sink);
}

void OptimizerState::plan_states(const OffloadView& view, const OffloadSink& sink) const {
  const std::set<uint64_t> wanted = wanted_buffers(view);
  Share states(fraction_), gradients(fraction_);
  for (const tsr_item& item : view.items()) {
    const bool is_gradient = gradients_ && item.kind == TSR_BUFFER_GRADIENT;
    if (!is_gradient && !wanted.contains(item.buffer)) continue;
    if (!(is_gradient ? gradients : states).takes(item.num_bytes)) continue;
    for (uint64_t u = 0; u < item.num_uses; ++u)
      if (leaves_after(view, item, u, ahead_, linger_))
        sink.leave({item.buffer, item.uses[u].visit, place_, ahead_, linger_});
  }
}

void OptimizerState::plan_updates(const OffloadView& view, const OffloadSink& sink) const {
  Share share(fraction_);
  const HostUpdates updates(view, [&](uint64_t value) {
    return share.takes(std::ranges::find(view.items(), value, &tsr_item::buffer)->num_bytes);
  });
  for (const tsr_item& item : view.items()) {
    if (!updates.uses(item.buffer)) continue;
    const bool in_gaps = gradients_ && item.kind == TSR_BUFFER_GRADIENT;
    for (uint64_t u = 0; u < item.num_uses; ++u)
      if (updates.leaves_after(item, u) || (in_gaps && leaves_after(view, item, u, ahead_, linger_)))
        sink.leave({item.buffer, item.uses[u].visit, place_, ahead_, linger_});
  }
  updates.run(sink);
}

}  // namespace tessera::optimizer_state
