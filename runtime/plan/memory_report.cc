// Sums up a memory plan by what its buffers hold. Bytes are those of live ranges, as planned; nothing is measured.
// Staging buffers are traced to their ranges: a gathered copy that a collective fills by way of the host is still a
// gathered copy.
//
//     between steps    persistent buffers
//     at the peak      these, and what is live at the first action where all together are most
//     own peak         of each class at its own action: these do not add up to the peak

#include "plan/memory_report.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "memory/first_fit.h"
#include "memory/live_ranges.h"
#include "passes/host_staging.h"

namespace tessera::host {
namespace {

constexpr std::array<std::string_view, kNumMemoryClasses> kNames = {
    "parameters", "compute copies", "gathered",      "gradients", "optimizer", "activations",
    "saved",      "fetched",        "communication", "workspace", "inputs",    "plugin"};

/// The buffers that collectives write or use as workspace.
std::set<uint64_t> bound_by_collectives(const Program& program) {
  const StagedRanges staged(program);
  std::set<uint64_t> buffers;
  for (const Action& action : program.actions)
    if (is_collective(action.kind))
      for (const Binding& binding : action.bindings)
        if (binding.mode != TSR_MODE_READ) buffers.insert(staged.of(binding).buffer);
  return buffers;
}

MemoryClass class_of(const Buffer& buffer, const std::set<uint64_t>& collective) {
  switch (buffer.kind) {
    case TSR_BUFFER_HOME:
      return MemoryClass::parameters;
    case TSR_BUFFER_GRADIENT:
      return MemoryClass::gradients;
    case TSR_BUFFER_OPTIMIZER:
      return MemoryClass::optimizer;
    case TSR_BUFFER_GATHERED:
      return collective.contains(buffer.id) ? MemoryClass::gathered : MemoryClass::compute_copies;
    case TSR_BUFFER_ACTIVATION:
      return MemoryClass::activations;
    case TSR_BUFFER_SAVED:
      return MemoryClass::saved;
    case TSR_BUFFER_FETCHED:
      return MemoryClass::fetched;
    case TSR_BUFFER_STAGING:
      return MemoryClass::communication;
    case TSR_BUFFER_WORKSPACE:
      return collective.contains(buffer.id) ? MemoryClass::communication : MemoryClass::workspace;
    case TSR_BUFFER_PLUGIN:
      return MemoryClass::plugin;
    default:
      return MemoryClass::inputs;
  }
}

/// Bytes of each class alive at its own peak, transient buffers only.
BytesByClass most_of(const Program& program, std::span<const LiveRange> live_ranges,
                     const std::set<uint64_t>& collective) {
  std::array<std::vector<LiveRange>, kNumMemoryClasses> by_class;
  for (const LiveRange& live_range : live_ranges)
    by_class[static_cast<size_t>(class_of(*live_range.buffer, collective))].push_back(live_range);
  BytesByClass most;
  for (size_t i = 0; i < by_class.size(); ++i)
    most[static_cast<MemoryClass>(i)] = std::ranges::max(live_bytes(program, by_class[i]));
  return most;
}

}  // namespace

std::string_view to_string(MemoryClass what) {
  return kNames[static_cast<size_t>(what)];
}

uint64_t BytesByClass::total() const {
  return std::accumulate(bytes_.begin(), bytes_.end(), uint64_t{0});
}

MemoryReport memory_report(const Program& program, const MemoryPlan& plan, uint32_t memory, size_t num_largest) {
  MemoryReport report;
  if (const auto use = plan.use.find(memory); use != plan.use.end()) report.arena_bytes = use->second.arena_bytes;
  const std::set<uint64_t> collective = bound_by_collectives(program);
  const std::vector<LiveRange> live_ranges = live_ranges_in(program, memory);
  report.live = live_bytes(program, live_ranges);
  report.peak_action = std::ranges::max_element(report.live) - report.live.begin();
  report.most = most_of(program, live_ranges, collective);
  const auto count_at_peak = [&](const Buffer& buffer) {
    const MemoryClass what = class_of(buffer, collective);
    const uint64_t num_bytes = footprint_bytes(buffer, 0);
    report.peak[what] += num_bytes;
    report.largest.push_back({buffer.name, what, num_bytes});
    if (!buffer.persistent) return;
    report.states[what] += num_bytes;
    report.most[what] += num_bytes;
  };
  for (const Buffer& buffer : program.buffers)
    if (buffer.persistent && buffer.memory == memory) count_at_peak(buffer);
  for (const LiveRange& live_range : live_ranges)
    if (live_range.first <= report.peak_action && report.peak_action <= live_range.last)
      count_at_peak(*live_range.buffer);
  // live_bytes() has one more, for the end of the program.
  report.live.resize(program.actions.size());
  for (uint64_t& bytes : report.live)
    bytes += report.states.total();
  std::ranges::stable_sort(report.largest, std::greater(), &LiveBuffer::num_bytes);
  report.largest.resize(std::min(num_largest, report.largest.size()));
  return report;
}

}  // namespace tessera::host
