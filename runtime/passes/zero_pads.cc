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

/// Of each buffer: whether something reads it that reads gaps, which no compute action does. Others need no pads.
std::vector<bool> read_with_gaps(const Program& program, const BufferIndex& index_of) {
  std::vector<bool> result(program.buffers.size());
  for (const Action& action : program.actions)
    if (!is_compute(action.kind))
      for (const Binding& b : action.bindings) {
        const size_t index = index_of(b.buffer);
        if (b.mode != TSR_MODE_WRITE && !program.buffers[index].persistent) result[index] = true;
      }
  return result;
}

/// The ranges of these buffers that hold elements of a parameter.
Ranges parameter_ranges(const Program& program, const BufferIndex& index_of, const std::vector<bool>& asked) {
  Ranges ranges(program.buffers.size());
  const auto add = [&](uint64_t buffer, uint64_t begin, uint64_t num_elements) {
    if (const size_t index = index_of(buffer); asked[index]) ranges[index].add(begin, begin + num_elements);
  };
  for (const Home& home : program.homes)
    for (const HomeRange& range : ranges_of(home))
      for (const auto& [number, role] : home.roles)
        if (role.buffer) add(role.buffer, role.offset + range.home_offset, range.num_elements);
  for (const Action& action : program.actions)
    if (is_compute(action.kind))
      for (const Binding& b : action.bindings)
        add(b.buffer, b.offset, b.num_elements);
  return ranges;
}

}  // namespace

void zero_pads(Program& program) {
  const BufferIndex index_of(program);
  const std::vector<bool> asked = read_with_gaps(program, index_of);
  const Ranges real = parameter_ranges(program, index_of, asked);
  Ranges written(program.buffers.size());
  std::vector<Action> result;
  for (Action& action : program.actions) {
    Action zero;
    for (const Binding& b : action.bindings) {
      const size_t index = index_of(b.buffer);
      if (!asked[index]) continue;
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
