// A value of two blocks, with ahead = linger = 1: it is written in the forward of h.0 and read in that of h.1, four
// visits before the backward of h.1 reads it again.
//
//     visit      h.0  h.1  ln_f  loss  ln_f  h.1  h.0
//     uses       w    r                      r    r
//     device     |---------------|     |-----------|
//
// It leaves after h.1, keeps its memory through ln_f, and is back when the backward of ln_f begins.
//
// A fraction takes whole tensors, spread evenly over the blocks. Cost: linear in the uses.

#include "activations.h"

namespace tessera::activations {

Activations::Activations(std::span<const tsr_option_value> options)
    : what_(to_string(option(options, "what").s)),
      place_(place_option(options)),
      fraction_(option(options, "fraction").d),
      min_bytes_(static_cast<uint64_t>(option(options, "min-bytes").i)),
      ahead_(static_cast<uint32_t>(option(options, "ahead").i)),
      linger_(static_cast<uint32_t>(option(options, "linger").i)) {}

bool Activations::is_wanted(const tsr_item& item) const {
  const bool is_saved = item.kind == TSR_BUFFER_SAVED, is_value = item.kind == TSR_BUFFER_ACTIVATION;
  return item.num_bytes >= min_bytes_ && ((is_saved && what_ != "values") || (is_value && what_ != "saved"));
}

bool Activations::has_gap(const tsr_item& item) const {
  for (uint64_t u = 0; u + 1 < item.num_uses; ++u)
    if (is_gap(item.uses[u], item.uses[u + 1])) return true;
  return false;
}

void Activations::plan(const OffloadView& view, const OffloadSink& sink) const {
  if (!has_place(view, place_)) return;
  Share share(fraction_);
  for (const tsr_item& item : view.items()) {
    if (!is_wanted(item) || !has_gap(item) || !share.takes(item.num_bytes)) continue;
    for (uint64_t u = 0; u + 1 < item.num_uses; ++u)
      if (is_gap(item.uses[u], item.uses[u + 1]))
        sink.leave({item.buffer, item.uses[u].visit, place_, ahead_, linger_});
  }
}

}  // namespace tessera::activations
