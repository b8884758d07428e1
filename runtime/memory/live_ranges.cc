// Live ranges of transient buffers in list order, and which of them may not share an address. Of ddp's backward:
//
//     action                    22   23   24   25   26
//     %64 d h.2.x               w----r----r
//     %66 d h.1.hidden                    w----r
//     %67 d h.1.norm_2                         w----r         may take the address of %64, not that of %66
//
// Overlap in list order is not everything. Streams run concurrently, so a buffer whose last use comes earlier in the
// list may still be in use. For each buffer the planner needs two sets of those that are placed already:
// - orderable: those that the program, as it is, neither finishes before this one starts nor starts after it ends, and
//   that an added wait could order;
// - unorderable: those that no added wait could order. These are the ones alive at the same time, and in programs with
//   messages those for which a wait could close a cycle over several ranks (AddableWaits). Of 120 random programs 19
//   deadlocked before there was such a rule.
//
// What overlaps is found by a segment tree over the actions (a buffer is kept at the O(log n) nodes that cover its
// range, and a walk from a leaf to the root visits all that are alive there) and by a range of the starts, which
// ascend. What is unordered is found stream by stream: a stream is in order, so one binary search with the vector
// clocks gives all uses that are over.

#include "memory/live_ranges.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "memory/footprint.h"
#include "program/buffer_index.h"

namespace tessera::host {
namespace {

bool host_reads_after(uint32_t kind) {
  return kind == TSR_BUFFER_SCALAR || kind == TSR_BUFFER_ACCUMULATOR;
}

void add_use(LiveRange& live_range, const Program& program, uint32_t action) {
  const uint32_t stream = program.actions[action].stream;
  if (program.streams[stream].kind == TSR_STREAM_KIND_HOST) live_range.alignment = kFileAlignment;
  if (live_range.first_uses.empty()) live_range.first = action;
  live_range.last = action;
  for (uint32_t& last : live_range.last_uses)
    if (program.actions[last].stream == stream) {
      last = action;
      return;
    }
  live_range.first_uses.push_back(action);
  live_range.last_uses.push_back(action);
}

}  // namespace

std::vector<LiveRange> live_ranges_in(const Program& program, uint32_t memory) {
  const BufferIndex index_of(program);
  std::vector<LiveRange> of_buffer(program.buffers.size());
  for (uint32_t i = 0; i < program.actions.size(); ++i)
    for (const Binding& binding : program.actions[i].bindings) {
      const size_t index = index_of(binding.buffer);
      const Buffer& buffer = program.buffers[index];
      if (buffer.persistent || buffer.memory != memory) continue;
      LiveRange& live_range = of_buffer[index];
      live_range.buffer = &buffer;
      add_use(live_range, program, i);
    }
  std::erase_if(of_buffer, [](const LiveRange& live_range) { return !live_range.buffer; });
  for (LiveRange& live_range : of_buffer) {
    const uint32_t kind = live_range.buffer->kind;
    if (kind == TSR_BUFFER_INPUT || host_reads_after(kind)) live_range.first = 0;
    if (host_reads_after(kind)) live_range.last = static_cast<uint32_t>(program.actions.size() - 1);
  }
  std::ranges::stable_sort(of_buffer, {}, &LiveRange::first);
  return of_buffer;
}

std::vector<uint64_t> live_bytes(const Program& program, std::span<const LiveRange> live_ranges, uint64_t guard_bytes) {
  // A difference array and its prefix sums: linear, where a scan for each action would be quadratic.
  std::vector<uint64_t> live(program.actions.size() + 1, 0);  // first the changes, modulo 2^64
  for (const LiveRange& live_range : live_ranges) {
    live[live_range.first] += footprint_bytes(*live_range.buffer, guard_bytes);
    live[live_range.last + 1] -= footprint_bytes(*live_range.buffer, guard_bytes);
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  return live;
}

Interference::Interference(const Program& program, const VectorClocks& clocks, std::span<const LiveRange> live_ranges)
    : clocks_(clocks), addable_(program, clocks), live_ranges_(live_ranges), added_(live_ranges.size()) {
  starts_.reserve(live_ranges.size());
  for (const LiveRange& live_range : live_ranges)
    starts_.push_back(live_range.first);
  uint32_t num_streams = 0;
  for (const Action& action : program.actions)
    num_streams = std::max(num_streams, action.stream + 1);
  const auto stream_of = [&](uint32_t action) { return program.actions[action].stream; };
  first_uses_.resize(num_streams);
  last_uses_.resize(num_streams);
  for (uint32_t i = 0; i < live_ranges.size(); ++i) {
    for (const uint32_t use : live_ranges[i].first_uses)
      first_uses_[stream_of(use)].push_back({use, i});
    for (const uint32_t use : live_ranges[i].last_uses)
      last_uses_[stream_of(use)].push_back({use, i});
  }
  for (Uses* uses : {&first_uses_, &last_uses_})
    for (auto& stream : *uses)
      std::ranges::sort(stream, {}, &Use::action);
  tree_.resize(2 * std::bit_ceil(program.actions.size()));
}

void Interference::add(uint32_t live_range) {
  added_.add(live_range);
  size_t begin = tree_.size() / 2 + live_ranges_[live_range].first;
  size_t end = tree_.size() / 2 + live_ranges_[live_range].last + 1;
  for (; begin < end; begin /= 2, end /= 2) {
    if (begin % 2) tree_[begin++].push_back(live_range);
    if (end % 2) tree_[--end].push_back(live_range);
  }
}

void Interference::clear() {
  added_.clear();
  for (std::vector<uint32_t>& node : tree_)
    node.clear();
}

}  // namespace tessera::host
