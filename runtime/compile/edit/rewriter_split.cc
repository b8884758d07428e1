// Backwards in the private copy of a program, split in two: a pipeline without bubbles computes gradients of inputs
// first, which other stages wait for, and those of weights when it has nothing else to do (Qi et al., Zero Bubble
// Pipeline Parallelism, 2023).
//
//     backward h.0.up      becomes      backward_input h.0.up     w %90 c
//                                       backward_weight h.0.up    r %90 c

#include "compile/edit/rewriter.h"
#include "tessera/error.hpp"

namespace tessera::host {

// One half of a backward, with the bindings of the whole, or 0 if it would produce nothing (a segment without
// parameters has no weight half). Contexts are tensors that the input half computes for the weight half: the first half
// adds their buffers, the second one finds them in `contexts`.
uint64_t Rewriter::half_of(const Action& whole, uint32_t kind, std::vector<uint64_t>& contexts) {
  Action half = whole;
  half.id = program_.next_id++;
  half.kind = kind;
  half.bindings.clear();
  bool produces = false;
  const std::string about = program_.model->segments[whole.segment].name + " mb=" + std::to_string(whole.micro_batch);
  for (const tsr_slot_spec& spec : describe_(op_of(program_, half))) {
    const uint32_t role = TSR_SLOT_ROLE(spec.slot), slot_index = TSR_SLOT_INDEX(spec.slot);
    if (role == TSR_ROLE_CONTEXT || role == TSR_ROLE_WORKSPACE) {
      const bool is_context = role == TSR_ROLE_CONTEXT;
      uint64_t id = 0;
      if (is_context && contexts.size() > slot_index) id = contexts[slot_index];
      if (!id)
        id = program_.add_buffer({0, about, is_context ? TSR_BUFFER_SAVED : TSR_BUFFER_WORKSPACE, TSR_MEMORY_DEVICE,
                                  spec.dtype, false, spec.num_elements});
      if (is_context && contexts.size() <= slot_index) contexts.resize(slot_index + 1);
      if (is_context) contexts[slot_index] = id;
      half.bindings.push_back({id, 0, spec.num_elements, spec.slot, spec.mode});
    } else if (const Binding* bound = whole.find(spec.slot)) {
      half.bindings.push_back(*bound);
    } else if (role != TSR_ROLE_GRADIENT && !(spec.flags & TSR_SLOT_OPTIONAL)) {
      throw Error(TSR_E_INVALID_ARGUMENT, "backward of " + about + " does not bind what its halves need");
    }
    produces |= role == TSR_ROLE_GRADIENT || role == TSR_ROLE_INPUT_GRADIENT;
  }
  if (!produces) return 0;
  const Position position = actions_.insert(by_id_.at(whole.id).position, std::move(half));
  index(position);
  return position->id;
}

std::pair<uint64_t, uint64_t> Rewriter::split_backward(uint64_t id) {
  const Action whole = action(id);
  if (whole.kind != TSR_ACTION_BACKWARD)
    throw Error(TSR_E_INVALID_ARGUMENT, "only a backward can be split, not " + std::string(action_name(whole.kind)));
  std::vector<uint64_t> contexts;
  const uint64_t input = half_of(whole, TSR_ACTION_BACKWARD_INPUT, contexts);
  const uint64_t weight = half_of(whole, TSR_ACTION_BACKWARD_WEIGHT, contexts);
  remove(id);
  return {input, weight};
}

}  // namespace tessera::host
