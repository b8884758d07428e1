// Which buffers a policy may move, and when they are used. Of
//
//     5     forward h.0.attention mb=0  r %28 i:qkv  w %29 o:attended  w %30 s:0  w %31 w:0
//     36    backward h.0.attention mb=0  ...  r %30 s:0  ...
//
// %30 is an item of unit h.0, of which 512 bytes are written in the forward of h.0 and read in its backward; %31 is
// scratch. Left out are:
//  - what the host reads and writes at fixed addresses (inputs, scalars, accumulators), scratch memory, and what
//    earlier policies or the host's own staging have moved;
//  - a transient buffer of which a range is written again after a use: its contents are two values one after the other,
//    and each should be an item. None of our passes makes such a buffer;
//  - what an action binds with no element, which no pass of the host does either: it would have a use that moves
//    nothing.
//
// Cost: linear in the bindings.

#include "offload/items.h"

#include <algorithm>
#include <map>
#include <optional>

#include "offload/copies.h"
#include "offload/visits.h"
#include "program/collective_operands.h"
#include "program/range_set.h"

namespace tessera::host {
namespace {

bool is_movable_kind(const Buffer& buffer) {
  switch (buffer.kind) {
    case TSR_BUFFER_ACTIVATION:
    case TSR_BUFFER_SAVED:
    case TSR_BUFFER_GATHERED:
    case TSR_BUFFER_GRADIENT:
    case TSR_BUFFER_PLUGIN:
      return buffer.memory == TSR_MEMORY_DEVICE && !buffer.persistent;
    case TSR_BUFFER_HOME:
    case TSR_BUFFER_OPTIMIZER:
      return buffer.memory == TSR_MEMORY_DEVICE && buffer.persistent;
    default:
      return false;
  }
}

/// What is known of one buffer while the list is walked.
struct Candidate {
  Item item;
  RangeSet touched;
  RangeSet touched_by_visit;  // by the last one
  bool is_left_out = false;
  bool is_scattered = false;  // a sum left each rank its slice of it, in place
  std::optional<int> unit;
};

class ItemFinder {
 public:
  ItemFinder(const Program& program, std::span<const tsr_visit> visits)
      : program_(program), visits_(visits), visit_of_(visit_of_actions(visits)) {
    for (const Buffer& buffer : program.buffers)
      if (is_movable_kind(buffer)) candidates_[buffer.id].item.buffer = &buffer;
  }

  std::vector<Item> run() {
    for (size_t i = 0; i < program_.actions.size(); ++i)
      for (const Binding& access : accesses(program_, program_.actions[i]))
        if (const auto found = candidates_.find(access.buffer); found != candidates_.end())
          add(found->second, program_.actions[i], visit_of_[i], access);
    std::vector<Item> items;
    for (auto& [id, candidate] : candidates_)
      if (!candidate.is_left_out && candidate.item.uses.size() > (candidate.item.buffer->persistent ? 0u : 1u)) {
        candidate.item.unit = candidate.unit.value_or(-1);
        items.push_back(std::move(candidate.item));
      }
    return items;
  }

 private:
  void add(Candidate& candidate, const Action& action, uint32_t visit, const Binding& access) {
    const uint64_t end = access.offset + access.num_elements;
    // On a rank whose slice is empty, or all there is, too: a policy sees the same items on all ranks.
    const bool is_gathered_again = action.kind == TSR_ACTION_ALL_GATHER && candidate.is_scattered;
    candidate.is_scattered |= action.kind == TSR_ACTION_REDUCE_SCATTER && access.mode == TSR_MODE_ADD;
    const bool is_written_again =
        is_gathered_again || (access.mode == TSR_MODE_WRITE && access.num_elements > 0 &&
                              !candidate.item.buffer->persistent && !candidate.touched.disjoint(access.offset, end));
    candidate.touched.add(access.offset, end);
    candidate.is_left_out |= is_written_again || is_movement(program_, action) || access.num_elements == 0;
    const int unit = visits_[visit].unit;
    if (candidate.unit.value_or(unit) != unit)
      candidate.unit = -1;
    else
      candidate.unit = unit;
    std::vector<tsr_use>& uses = candidate.item.uses;
    if (uses.empty() || uses.back().visit != visit) {
      uses.push_back({visit, TSR_MODE_READ, 0});
      candidate.touched_by_visit = {};
    }
    if (access.mode != TSR_MODE_READ) uses.back().mode = TSR_MODE_ADD;
    for (const auto& [begin, end_of_gap] : candidate.touched_by_visit.gaps(access.offset, end))
      uses.back().num_bytes += (end_of_gap - begin) * TSR_NUM_BYTES(candidate.item.buffer->dtype, 1);
    candidate.touched_by_visit.add(access.offset, end);
  }

  const Program& program_;
  const std::span<const tsr_visit> visits_;
  const std::vector<uint32_t> visit_of_;
  std::map<uint64_t, Candidate> candidates_;
};

}  // namespace

std::vector<Item> items_of(const Program& program, std::span<const tsr_visit> visits) {
  return ItemFinder(program, visits).run();
}

}  // namespace tessera::host
