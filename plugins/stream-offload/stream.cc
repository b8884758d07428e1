// The values of h.1 of two blocks, one micro-batch, ahead = linger = 1:
//
//     visit      wpe  h.0  h.1  ln_f  loss  ln_f  h.1  h.0  ...  clip  ...  h.1/0  h.1/1
//     uses                 r                      r                         a      a
//     device          |-------|             |--------|                  |----------|
//                                                                             |----------|
//
// In forward and backward an item leaves where its next use is more than ahead + linger + 1 visits away; what is
// nearer stays. An update visits its chunk's range alone, so there an item leaves after each visit, and the next chunk
// comes in beside it. A fraction takes whole units, in the order of the program. Cost: linear in uses and homes.

#include "stream.h"

#include <algorithm>

namespace tessera::stream {
namespace {

std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    names.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return names;
}

}  // namespace

Stream::Stream(std::span<const tsr_option_value> options)
    : place_(place_option(options)),
      fraction_(option(options, "fraction").d),
      keep_(names_in(to_string(option(options, "keep").s))),
      gradients_(option(options, "gradients").i != 0),
      updates_on_host_(update_option(kName, options)),
      ahead_(static_cast<uint32_t>(option(options, "ahead").i)),
      linger_(static_cast<uint32_t>(option(options, "linger").i)) {}

/// Those of `keep`, and what the fraction leaves.
std::set<int32_t> Stream::kept_units(const OffloadView& view) const {
  const auto units = view.program().units();
  std::set<int32_t> kept;
  for (const std::string& name : keep_) {
    const auto unit = std::ranges::find(units, name, [](const tsr_unit& u) { return to_string(u.name); });
    if (unit == units.end())
      throw Error(TSR_E_INVALID_ARGUMENT, "keep names the unit '" + name +
                                              "', which the model does not have; the first of its " +
                                              std::to_string(units.size()) + " units is " + to_string(units[0].name));
    kept.insert(static_cast<int32_t>(unit - units.begin()));
  }
  Share share(fraction_);
  for (size_t u = 0; u < units.size(); ++u)
    if (!kept.contains(static_cast<int32_t>(u)) && !share.takes(units[u].num_elements))
      kept.insert(static_cast<int32_t>(u));
  return kept;
}

/// The buffers of homes of kept units.
std::set<uint64_t> Stream::kept_buffers(const OffloadView& view) const {
  const std::set<int32_t> units = kept_units(view);
  std::set<uint64_t> buffers;
  for (const tsr_home& home : view.program().homes())
    if (units.contains(home.unit))
      for (const tsr_home_role& role : std::span(home.roles, home.num_roles))
        buffers.insert(role.buffer);
  return buffers;
}

void Stream::plan(const OffloadView& view, const OffloadSink& sink) const {
  if (!has_place(view, place_)) return;
  const std::set<uint64_t> kept = kept_buffers(view);
  const HostUpdates updates(view, [&](uint64_t value) { return updates_on_host_ && !kept.contains(value); });
  for (const tsr_item& item : view.items()) {
    const bool is_state = item.kind == TSR_BUFFER_HOME || item.kind == TSR_BUFFER_OPTIMIZER;
    const bool is_wanted = is_state || (gradients_ && item.kind == TSR_BUFFER_GRADIENT);
    const bool leaves_in_gaps = is_wanted && !kept.contains(item.buffer), for_host = updates.uses(item.buffer);
    for (uint64_t u = 0; u < item.num_uses; ++u)
      if ((leaves_in_gaps && leaves_after(view, item, u, ahead_, linger_)) ||
          (for_host && updates.leaves_after(item, u)))
        sink.leave({item.buffer, item.uses[u].visit, place_, ahead_, linger_});
  }
  updates.run(sink);
}

}  // namespace tessera::stream
