// A model is ops applied to values (decision 0029), and all ops of a language model but two compute each row from that
// row alone. So a forward of some rows is the model built for that many rows, with its ops prepared by the device as
// for training (decision 0035); the two are
//
//     ATTENTION   of the first rows: the device's op, and their keys and values go to a cache. Of one more row: a
//                 function over the cache, which runs in the order of the device's stream
//     LOSS        in its place HEAD_LOGITS, of the last row alone
//
// POSITION_EMBEDDING of one row is that op with a table of one row: the one at its position.
//
// A value's buffer is free again after the last segment that reads it.

#include "generate/forward.h"

#include <algorithm>

#include "base/concat.h"
#include "guard/plugin_calls.h"
#include "program/lower_op.h"
#include "tessera/error.hpp"
#include "tessera/op_table.hpp"

namespace tessera::host {
namespace {

// A prompt that fills the context of a large model takes minutes on one core.
constexpr int64_t kRunMs = 600'000;

bool computes_each_row(uint32_t op) {
  constexpr uint32_t kOps[] = {TSR_OP_TOKEN_EMBEDDING, TSR_OP_POSITION_EMBEDDING, TSR_OP_LAYER_NORM,
                               TSR_OP_LINEAR,          TSR_OP_ADD_LAYER_NORM,     TSR_OP_ADD};
  return std::ranges::count(kOps, op) > 0;
}

}  // namespace

Forward::Forward(const ForwardSetup& setup, Rows rows, int64_t num_rows)
    : setup_(setup),
      rows_(rows),
      num_rows_(num_rows),
      model_(setup.architecture.build({.batch = 1, .seq = num_rows})),
      tokens_(static_cast<size_t>(num_rows)),
      place_(model_.values.size()),
      buffer_(model_.values.size()),
      stream_(make_stream(setup.device, "generate")) {
  place_[static_cast<size_t>(model_.inputs().front())] = tokens_.data();
  for (size_t s = 0; s + 1 < model_.segments.size(); ++s)
    add_segment(s);
  add_head(model_.loss());
}

float* Forward::allocate(uint64_t num_elements) {
  return buffers_.emplace_back(num_elements).data();
}

std::vector<void*> Forward::places(const std::vector<int>& values) const {
  std::vector<void*> result;
  for (const int value : values)
    result.push_back(place_[static_cast<size_t>(value)]);
  return result;
}

void Forward::release_after(size_t segment) {
  const auto is_read_later = [&](int value) {
    return std::any_of(model_.segments.begin() + static_cast<std::ptrdiff_t>(segment) + 1, model_.segments.end(),
                       [value](const Segment& s) { return std::ranges::count(s.inputs, value) > 0; });
  };
  for (const int value : model_.segments[segment].inputs)
    if (auto& buffer = buffer_[static_cast<size_t>(value)]; buffer && !is_read_later(value))
      free_.push_back(std::exchange(buffer, nullptr));
}

void Forward::add_segment(size_t index) {
  const Segment& segment = model_.segments[index];
  for (const int output : segment.outputs) {
    const uint64_t num_elements = model_.values[static_cast<size_t>(output)].num_elements;
    // Blocks are alike, so a buffer of the very size is soon free: a forward has those of about one block.
    const auto fits = std::ranges::find_if(free_, [&](const auto* b) { return b->size() == num_elements; });
    auto*& buffer = buffer_[static_cast<size_t>(output)];
    if (fits != free_.end()) {
      buffer = *fits;
      free_.erase(fits);
    } else {
      buffer = &buffers_.emplace_back(num_elements);
    }
    place_[static_cast<size_t>(output)] = buffer->data();
  }
  if (segment.op.kind == TSR_OP_ATTENTION) {
    add_attention(segment);
  } else if (computes_each_row(segment.op.kind)) {
    std::vector<void*> parameters;
    for (const int parameter : segment.parameters)
      parameters.push_back(setup_.weights[static_cast<size_t>(parameter)].data());
    tsr_op op = segment.op;
    const bool is_position = op.kind == TSR_OP_POSITION_EMBEDDING && rows_ == Rows::next;
    if (is_position) op.dims[TSR_DIM_POSITIONS] = 1;
    add_kernel(op, parameters, places(segment.inputs), places(segment.outputs));
    if (is_position) {
      launches_.back().positions = static_cast<const float*>(parameters[0]);
      launches_.back().width = static_cast<size_t>(op.dims[TSR_DIM_EMBED]);
    }
  } else {
    throw Error(TSR_E_UNSUPPORTED, concat("text cannot be generated with this model: its segment ", segment.name,
                                          " has the op ", op::find_op(segment.op.kind)->name(),
                                          ", which does not compute each token from those before it"));
  }
  release_after(index);
}

void Forward::add_attention(const Segment& segment) {
  KeyValueCache& cache = setup_.caches.at(num_attentions_++);
  const std::vector<void*> inputs = places(segment.inputs), outputs = places(segment.outputs);
  const bool is_first = rows_ == Rows::first;
  if (is_first)
    add_kernel(segment.op, {}, inputs, outputs);
  else
    launches_.emplace_back();
  calls_.push_back({&cache, static_cast<const float*>(inputs[0]), is_first ? nullptr : static_cast<float*>(outputs[0]),
                    num_rows_, &position_});
  launches_.back().call = &calls_.back();
}

void Forward::add_head(const Segment& segment) {
  if (segment.op.kind != TSR_OP_LOSS)
    throw Error(TSR_E_UNSUPPORTED, "text cannot be generated with this model: it does not end with logits of tokens");
  tsr_op op = segment.op;
  op.kind = TSR_OP_HEAD_LOGITS;
  op.dims[TSR_DIM_SEQ] = 1;
  const int64_t vocab = op.dims[TSR_DIM_VOCAB], width = op.dims[TSR_DIM_EMBED];
  op.attributes[TSR_ATTR_VOCAB_BEGIN] = 0;
  op.attributes[TSR_ATTR_VOCAB_COUNT] = op.attributes[TSR_ATTR_VOCAB_TOTAL] = static_cast<double>(vocab);
  logits_.resize(static_cast<size_t>(vocab));
  float* rows = static_cast<float*>(place_[static_cast<size_t>(segment.inputs[0])]);
  add_kernel(op, {setup_.weights[static_cast<size_t>(segment.parameters[0])].data()}, {rows + (num_rows_ - 1) * width},
             {logits_.data(), allocate(1)});
}

void Forward::add_kernel(const tsr_op& given, const std::vector<void*>& parameters, const std::vector<void*>& inputs,
                         const std::vector<void*>& outputs) {
  tsr_op op = trimmed(given);
  op.phase = TSR_PHASE_FORWARD;
  Launch launch;
  std::vector<tsr_slot_spec> slots;
  const auto bind = [&](const tsr_slot_spec& slot, void* pointer) {
    slots.push_back(slot);
    launch.pointers.push_back(pointer);
  };
  for (const tsr_slot_spec& slot : describe(setup_.device.api(), op)) {
    const uint32_t index = TSR_SLOT_INDEX(slot.slot);
    switch (TSR_SLOT_ROLE(slot.slot)) {
      case TSR_ROLE_PARAMETER:
        bind(slot, parameters.at(index));
        break;
      case TSR_ROLE_INPUT:
        bind(slot, inputs.at(index));
        break;
      case TSR_ROLE_OUTPUT:
        bind(slot, outputs.at(index));
        break;
      case TSR_ROLE_WORKSPACE:
        if (slot.num_elements) bind(slot, allocate((TSR_NUM_BYTES(slot.dtype, slot.num_elements) + 3) / 4));
        break;
      default:
        if (!(slot.flags & TSR_SLOT_OPTIONAL))
          throw Error(TSR_E_INTERNAL, concat("the device needs a slot of role ", TSR_SLOT_ROLE(slot.slot),
                                             " for the forward of op ", op.kind));
    }
  }
  launch.kernel = make_kernel(setup_.device, op, slots);
  launches_.push_back(std::move(launch));
}

std::span<const float> Forward::run(std::span<const int32_t> tokens, int64_t position) {
  std::ranges::copy(tokens, tokens_.begin());
  position_ = position;
  const tsr_device_interface& api = setup_.device.api();
  for (Launch& launch : launches_) {
    if (launch.positions)
      launch.pointers[0] = const_cast<float*>(launch.positions + static_cast<size_t>(position) * launch.width);
    if (launch.kernel)
      call(api.launch, launch.kernel.get(), stream_.get(), launch.pointers.data(), launch.pointers.size());
    if (!launch.call) continue;
    const tsr_host_function attend = [](void* user, tsr_error*) noexcept -> tsr_status {
      const auto& c = *static_cast<CacheCall*>(user);
      if (c.out)
        c.cache->attend(c.qkv, *c.position, c.out);
      else
        c.cache->store(c.qkv, c.num_rows, *c.position);
      return TSR_OK;
    };
    call(api.host_function, stream_.get(), attend, static_cast<void*>(launch.call));
  }
  call(api.host_function, stream_.get(), &Arrivals::arrive, &ended_);
  synchronize(setup_.device, stream_.get(), kRunMs);
  if (ended_.count.load(std::memory_order_acquire) < ++num_runs_)
    end_by_early_ok(setup_.device, "the host function after the last kernel had not run");
  return logits_;
}

}  // namespace tessera::host
