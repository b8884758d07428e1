// Each buffer of optimizer state is used by the updates of its unit's chunks, one visit a chunk, and leaves after each
// of them. What a chunk's update fetches is its own range, since only that is bound in the stay.
//
//     visit       update h.0/0   h.0/1   h.0/2   h.0/3
//     h.0 m       |--- 0 ---|
//                 |------ 1 --------|                      in device memory with ahead = 2, linger = 1
//                 |---------- 2 ------------|
//
// A fraction takes whole buffers, in the order of the program. Cost: linear in the uses, and in homes.

#include "optimizer_state.h"

namespace tessera::optimizer_state {

OptimizerState::OptimizerState(std::span<const tsr_option_value> options)
    : place_(place_option(options)),
      fraction_(option(options, "fraction").d),
      states_(to_string(option(options, "states").s)),
      ahead_(static_cast<uint32_t>(option(options, "ahead").i)),
      linger_(static_cast<uint32_t>(option(options, "linger").i)) {}

std::set<uint64_t> OptimizerState::wanted_buffers(const OffloadView& view) const {
  std::set<uint64_t> buffers;
  for (const tsr_home& home : view.program().homes()) {
    if (states_ != "v") buffers.insert(home.roles[TSR_HOME_M].buffer);
    if (states_ != "m") buffers.insert(home.roles[TSR_HOME_V].buffer);
  }
  return buffers;
}

void OptimizerState::plan(const OffloadView& view, const OffloadSink& sink) const {
  if (!has_place(view, place_)) return;
  const std::set<uint64_t> wanted = wanted_buffers(view);
  Share share(fraction_);
  for (const tsr_item& item : view.items())
    if (wanted.contains(item.buffer) && share.takes(item.num_bytes))
      for (const tsr_use& use : OffloadView::uses(item))
        sink.leave({item.buffer, use.visit, place_, ahead_, linger_});
}

}  // namespace tessera::optimizer_state
