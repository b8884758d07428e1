// Converts values between whole and rows (Korthikanti et al. 2022). The host's local model has both forms of such a
// value; this file fills one from the other:
//
//     forward  ln_1 (rows)      w norm_1                     rows of this rank
//     all_gather                r norm_1  w norm_1.whole     after the rows are made: for qkv
//     forward  qkv              r norm_1.whole
//     ...
//     forward  proj             w projected.whole            an addend
//     reduce_scatter            r projected.whole  w projected
//     forward  add_ln_2 (rows)  r projected
//
// The backward gathers norm_1 once more, so that the whole need not be kept from the forward: the purpose of sequence
// parallelism is to save activation memory. Gradients move the other way: that of a gathered value is scattered, that
// of a scattered one gathered.

#include "sequence_parallel.h"

#include <algorithm>

namespace tessera::tensor {
namespace {

bool is_gradient(uint32_t role) {
  return role == TSR_ROLE_INPUT_GRADIENT || role == TSR_ROLE_OUTPUT_GRADIENT;
}

}  // namespace

SequenceParallel::SequenceParallel(const ProgramView& view, const Edit& edit, uint32_t stream, int32_t group)
    : view_(view), edit_(edit), stream_(stream), group_(group) {
  for (size_t v = 0; v < view.raw.num_values; ++v)
    if (const int32_t rows = view.raw.values[v].same_as; rows >= 0) whole_of_[rows] = static_cast<int32_t>(v);
  std::set<uint64_t> computed;  // what compute binds
  for (const tsr_action& action : view.actions()) {
    if (!is_compute(action)) continue;
    for (const tsr_binding& b : ProgramView::bindings(action)) {
      computed.insert(b.buffer);
      const uint32_t role = TSR_SLOT_ROLE(b.slot);
      const int32_t value = value_of(action, b);
      if (role == TSR_ROLE_INPUT) inputs_.try_emplace({value, action.micro_batch}, b.buffer);
      if (is_gradient(role)) gradients_.try_emplace({gradient_value(value), action.micro_batch}, b.buffer);
    }
  }
  for (const tsr_action& action : view.actions())
    if (action.kind == TSR_ACTION_RECV && !computed.contains(action.bindings[0].buffer))
      received_[action.micro_batch] = action.bindings[0].buffer;
}

int32_t SequenceParallel::value_of(const tsr_action& action, const tsr_binding& binding) const {
  const tsr_segment& segment = view_.segments()[static_cast<size_t>(action.segment)];
  const uint32_t role = TSR_SLOT_ROLE(binding.slot), index = TSR_SLOT_INDEX(binding.slot);
  if (role == TSR_ROLE_INPUT || role == TSR_ROLE_INPUT_GRADIENT) return segment.inputs[index];
  if (role == TSR_ROLE_OUTPUT || role == TSR_ROLE_OUTPUT_GRADIENT) return segment.outputs[index];
  return -1;
}

int32_t SequenceParallel::gradient_value(int32_t value) const {
  while (value >= 0 && view_.raw.values[value].gradient_of >= 0)
    value = view_.raw.values[value].gradient_of;
  return value;
}

tsr_binding SequenceParallel::whole_buffer(uint64_t id, uint32_t slot, uint32_t mode) const {
  const auto buffer = std::ranges::lower_bound(view_.buffers(), id, {}, &tsr_buffer::id);
  return {id, 0, buffer->num_elements, slot, mode};
}

void SequenceParallel::insert(const tsr_action& anchor, uint32_t where, uint32_t kind, const tsr_binding& from,
                              const tsr_binding& to) const {
  tsr_action action = make_action(kind, stream_);
  action.micro_batch = anchor.micro_batch;
  action.group = group_;
  action.reduce = kind == TSR_ACTION_REDUCE_SCATTER ? TSR_REDUCE_SUM : 0;
  const tsr_binding bindings[] = {{from.buffer, from.offset, from.num_elements, kSource, TSR_MODE_READ},
                                  {to.buffer, to.offset, to.num_elements, kDestination, TSR_MODE_WRITE}};
  edit_.insert(anchor.id, where, action, bindings);
}

void SequenceParallel::scatter(const tsr_action& action, const tsr_binding& whole, int32_t value) const {
  if (action.kind == TSR_ACTION_RECOMPUTE) return;  // the forward's rows are still alive
  const int32_t rows = rows_of(value);
  const bool of_gradient = is_gradient(TSR_SLOT_ROLE(whole.slot));
  const auto& buffers = of_gradient ? gradients_ : inputs_;
  const auto to = buffers.find({of_gradient ? gradient_value(rows) : rows, action.micro_batch});
  if (to == buffers.end()) return;  // not read on this rank
  insert(action, TSR_AFTER, TSR_ACTION_REDUCE_SCATTER, whole, whole_buffer(to->second, kDestination, TSR_MODE_WRITE));
}

void SequenceParallel::gather(const tsr_action& action) {
  if (!is_compute(action)) return;
  const int32_t mb = action.micro_batch;
  for (const tsr_binding& b : ProgramView::bindings(action)) {
    const uint32_t role = TSR_SLOT_ROLE(b.slot);
    const int32_t value = value_of(action, b);
    if (value < 0) continue;
    // Rows were written: gather the whole for its readers in the forward.
    if (role == TSR_ROLE_OUTPUT && whole_of_.contains(value)) {
      latest_[{value, mb}] = b.buffer;
      const auto whole = inputs_.find({whole_of_.at(value), mb});
      if (action.kind == TSR_ACTION_FORWARD && whole != inputs_.end())
        insert(action, TSR_AFTER, TSR_ACTION_ALL_GATHER, b, whole_buffer(whole->second, kDestination, TSR_MODE_WRITE));
    }
    // Later readers get a whole of their own, so that the forward's need not live that long.
    if (role == TSR_ROLE_INPUT && rows_of(value) >= 0 && action.kind != TSR_ACTION_FORWARD) {
      const auto rows = latest_.find({rows_of(value), mb});
      if (rows == latest_.end() || action.kind == TSR_ACTION_LOSS) continue;
      const tsr_buffer& old = view_.buffer(b.buffer);
      const uint64_t again = edit_.add_buffer(tessera::view(old.name), old.kind, old.dtype, b.num_elements);
      const tsr_binding fresh{again, 0, b.num_elements, b.slot, TSR_MODE_READ};
      insert(action, TSR_BEFORE, TSR_ACTION_ALL_GATHER, whole_buffer(rows->second, kSource, TSR_MODE_READ), fresh);
      edit_.bind(action.id, fresh);
    }
    // Gather the gradient of a whole output from that of its rows.
    if (role == TSR_ROLE_OUTPUT_GRADIENT && rows_of(value) >= 0 && gathered_gradients_.insert({value, mb}).second) {
      const auto rows = gradients_.find({gradient_value(rows_of(value)), mb});
      if (rows == gradients_.end() && !received_.contains(mb)) continue;
      const uint64_t from = rows != gradients_.end() ? rows->second : received_.at(mb);
      insert(action, TSR_BEFORE, TSR_ACTION_ALL_GATHER, whole_buffer(from, kSource, TSR_MODE_READ), b);
    }
  }
}

}  // namespace tessera::tensor
