// Cuts a step into visits. Of two blocks and one micro-batch:
//
//     actions     0   1   2..8        9..15       16     17     18..26   27..35   ...   61           ...
//     visit       wpe     h.0         h.1         ln_f   loss   h.1      h.0            update of h.0
//     kind        forward             forward            loss   backward                update
//
// A visit begins at the first action whose key differs from the last one's: (block or segment, micro-batch, direction)
// of a compute action, (kind, home) of sum_squares and optimizer. Recomputation belongs to the backward it is for. All
// other actions have no key and join the visit that they come in, except that clip has a visit of its own, since all
// updates wait for it, and that what comes before the first key is a visit too. Squares that movement has put between
// the compute of two blocks have no key either: they take no time to speak of, and a policy counts in blocks. Casts
// before the first compute are a visit for each source, so that what is fetched for them need not be there all at once.
//
// Cost: linear in the bindings, besides the live ranges.

#include "offload/visits.h"

#include <algorithm>
#include <map>
#include <optional>

#include "memory/footprint.h"
#include "memory/live_ranges.h"
#include "program/lower_op.h"

namespace tessera::host {
namespace {

/// What consecutive actions of one visit have in common.
struct Key {
  uint32_t kind = TSR_VISIT_OTHER;
  uint32_t action_kind = 0;  // of updates and others
  int block = -1;            // blocks, then segments outside of blocks
  int micro_batch = -1;
  uint64_t home = 0;  // of updates; of casts the buffer

  bool operator==(const Key&) const = default;
};

/// From the first action that computes to after the last one.
struct ComputeSpan {
  explicit ComputeSpan(const Program& program) {
    const auto computes = [](const Action& action) { return is_compute(action.kind); };
    const auto first = std::ranges::find_if(program.actions, computes);
    begin = static_cast<uint64_t>(first - program.actions.begin());
    for (uint64_t i = begin; i < program.actions.size(); ++i)
      if (computes(program.actions[i])) end = i + 1;
  }
  uint64_t begin = 0, end = 0;
};

std::optional<Key> key_of(const Program& program, uint64_t index, const ComputeSpan& compute) {
  const Action& action = program.actions[index];
  if (is_compute(action.kind)) {
    const int block = program.model->segments[action.segment].block;
    const uint32_t kind = action.kind == TSR_ACTION_FORWARD ? TSR_VISIT_FORWARD
                          : action.kind == TSR_ACTION_LOSS  ? TSR_VISIT_LOSS
                                                            : TSR_VISIT_BACKWARD;
    return Key{kind, 0, block >= 0 ? block : program.model->num_blocks() + action.segment, action.micro_batch, 0};
  }
  if (action.kind == TSR_ACTION_SUM_SQUARES && index < compute.end) return std::nullopt;
  if (action.kind == TSR_ACTION_SUM_SQUARES || action.kind == TSR_ACTION_OPTIMIZER)
    return Key{TSR_VISIT_UPDATE, action.kind, -1, -1, action.home};
  if (action.kind == TSR_ACTION_CAST && index < compute.begin)
    return Key{TSR_VISIT_OTHER, action.kind, -1, -1, action.find(kSource)->buffer};
  if (action.kind == TSR_ACTION_CLIP) return Key{TSR_VISIT_OTHER, action.kind, -1, -1, 0};
  return std::nullopt;
}

uint64_t bound_bytes(const Program& program, const Action& action) {
  uint64_t num_bytes = 0;
  for (const Binding& b : action.bindings)
    num_bytes += TSR_NUM_BYTES(program.buffer(b.buffer).dtype, b.num_elements);
  return num_bytes;
}

/// The unit whose parameters an action's visit uses, with how many elements.
void count_parameters(const Program& program, const Action& action, std::map<int, uint64_t>& elements) {
  if (is_compute(action.kind))
    for (const int p : program.model->segments[action.segment].parameters)
      elements[program.model->parameters[p].unit] += program.model->parameters[p].num_elements;
  else if (action.home)
    elements[program.home(action.home).unit] += 1;
}

/// The unit with most elements; of equal ones the first. -1: none.
int largest_unit(const std::map<int, uint64_t>& elements) {
  const auto most = std::ranges::max_element(elements, {}, [](const auto& entry) { return entry.second; });
  return most == elements.end() ? -1 : most->first;
}

uint64_t persistent_bytes(const Program& program) {
  uint64_t num_bytes = 0;
  for (const Buffer& buffer : program.buffers)
    if (buffer.persistent && buffer.memory == TSR_MEMORY_DEVICE) num_bytes += footprint_bytes(buffer, 0);
  return num_bytes;
}

void measure(const Program& program, std::vector<tsr_visit>& visits) {
  const std::vector<uint64_t> live = live_bytes(program, live_ranges_in(program, TSR_MEMORY_DEVICE));
  const uint64_t persistent = persistent_bytes(program);
  for (tsr_visit& visit : visits) {
    std::map<int, uint64_t> elements;
    for (uint64_t i = visit.first_action; i <= visit.last_action; ++i) {
      const Action& action = program.actions[i];
      count_parameters(program, action, elements);
      visit.num_bytes += bound_bytes(program, action);
      visit.live_bytes = std::max(visit.live_bytes, persistent + live[i]);
      if (is_compute(action.kind)) visit.operations += num_operations(op_of(program, action));
    }
    visit.unit = largest_unit(elements);
  }
}

}  // namespace

std::vector<tsr_visit> visits_of(const Program& program) {
  std::vector<tsr_visit> visits;
  std::optional<Key> last;
  const ComputeSpan compute(program);
  for (uint64_t i = 0; i < program.actions.size(); ++i) {
    const std::optional<Key> key = key_of(program, i, compute);
    if (visits.empty() || (key && key != last)) {
      const Key begins = key.value_or(Key{});
      visits.push_back({i, i, begins.kind, -1, begins.micro_batch, 0, 0, 0, 0});
      last = begins;
    }
    visits.back().last_action = i;
  }
  measure(program, visits);
  return visits;
}

std::vector<uint32_t> visit_of_actions(std::span<const tsr_visit> visits) {
  std::vector<uint32_t> result;
  for (uint32_t v = 0; v < visits.size(); ++v)
    result.insert(result.end(), visits[v].last_action + 1 - visits[v].first_action, v);
  return result;
}

}  // namespace tessera::host
