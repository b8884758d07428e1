// Parameters start on multiples of 128 elements, and a reduction of several reads the gaps between them, which no
// kernel writes. In the program of ddp (tests/golden/programs/two-blocks-ddp.txt):
//
//     40    compute             backward wte mb=0  ...  a %61+28928:3072 g:weight
//     41    compute             zero  w %61+32:96 dst  w %61+160:96 dst:1  ...                inserted
//     42    comm.dp.gradient    all_reduce group=dp reduce=sum  a %61 dst  w %87 w:0  # 41
//
// Only gaps that hold no parameter are zeroed. An unwritten parameter stays unwritten, and is a diagnostic: a zero
// there would hide a backward that is missing.

#include "passes/zero_pads.h"

#include <utility>
#include <vector>

#include "program/buffer_index.h"
#include "program/range_set.h"

namespace tessera::host {
namespace {

using Ranges = std::vector<RangeSet>;  // by index of buffer

/// The ranges that hold elements of a parameter.
Ranges parameter_ranges(const Program& program, const BufferIndex& index_of) {
  Ranges ranges(program.buffers.size());
  for (const Home& home : program.homes)
    for (const HomeRange& range : ranges_of(home))
      for (const auto& [number, role] : home.roles) {
        const uint64_t begin = role.offset + range.home_offset;
        if (role.buffer) ranges[index_of(role.buffer)].add(begin, begin + range.num_elements);
      }
  for (const Action& action : program.actions)
    if (is_compute(action.kind))
      for (const Binding& b : action.bindings)
        ranges[index_of(b.buffer)].add(b.offset, b.offset + b.num_elements);
  return ranges;
}

}  // namespace

void zero_pads(Program& program) {
  const BufferIndex index_of(program);
  const Ranges real = parameter_ranges(program, index_of);
  Ranges written(program.buffers.size());
  std::vector<Action> result;
  for (Action& action : program.actions) {
    Action zero;
    for (const Binding& b : action.bindings) {
      const size_t index = index_of(b.buffer);
      if (program.buffers[index].persistent) continue;
      if (b.mode != TSR_MODE_WRITE && !real[index].empty())
        for (const auto& [begin, end] : written[index].gaps(b.offset, b.offset + b.num_elements)) {
          if (!real[index].disjoint(begin, end)) continue;  // an unwritten parameter: left to the verifier
          const auto slot = TSR_SLOT(TSR_ROLE_DESTINATION, zero.bindings.size());
          zero.bindings.push_back({b.buffer, begin, end - begin, slot, TSR_MODE_WRITE});
          written[index].add(begin, end);
        }
      if (b.mode != TSR_MODE_READ) written[index].add(b.offset, b.offset + b.num_elements);
    }
    if (!zero.bindings.empty()) {
      zero.id = program.next_id++;
      zero.kind = TSR_ACTION_ZERO;
      result.push_back(std::move(zero));
    }
    result.push_back(std::move(action));
  }
  program.actions = std::move(result);
}

}  // namespace tessera::host
