// The names under which a file of rates keeps the time of an op: what is computed, and how much of it.
//
//     "linear forward f32"            "batch 8, seq 128, in 128, out 384"
//     "cast f32 to bf16"              "elements 1048576"
//
// A name holds what changes the time of an op: kind, phase, dtypes, activation, and every extent that the op has. Plans
// look times up by these texts, so another text makes the files that exist useless.

#include "rates/op_rate.h"

#include <algorithm>
#include <array>

#include "base/concat.h"
#include "program/lower_op.h"
#include "tessera/op_table.hpp"

namespace tessera::host {
namespace {

constexpr std::array<std::pair<uint32_t, std::string_view>, 12> kDims = {{{TSR_DIM_BATCH, "batch"},
                                                                          {TSR_DIM_SEQ, "seq"},
                                                                          {TSR_DIM_HEADS, "heads"},
                                                                          {TSR_DIM_HEAD_DIM, "head_dim"},
                                                                          {TSR_DIM_EMBED, "embed"},
                                                                          {TSR_DIM_FFN, "ffn"},
                                                                          {TSR_DIM_IN, "in"},
                                                                          {TSR_DIM_OUT, "out"},
                                                                          {TSR_DIM_VOCAB, "vocab"},
                                                                          {TSR_DIM_POSITIONS, "positions"},
                                                                          {TSR_DIM_CLASSES, "classes"},
                                                                          {TSR_DIM_ELEMENTS, "elements"}}};

/// By TSR_PHASE_*.
constexpr std::array<std::string_view, 5> kPhases = {"", " forward", " backward", " backward_input",
                                                     " backward_weight"};

std::string name_of(const tsr_op& op) {
  const op::OpEntry* entry = op::find_op(op.kind);
  std::string name = concat(entry ? entry->name() : "op", kPhases.at(op.phase), " ", dtype_name(op.dtype));
  if (op.kind == TSR_OP_CAST) name += concat(" to ", dtype_name(op.destination_dtype));
  if (op.attributes[TSR_ATTR_ACTIVATION] != TSR_ACTIVATION_NONE) name += " activation";
  return name;
}

std::string shape_of(const tsr_op& op) {
  std::string shape;
  for (const auto& [dim, name] : kDims)
    if (op.dims[dim] != 0) shape += concat(shape.empty() ? "" : ", ", name, " ", op.dims[dim]);
  return shape;
}

bool is_in_device_memory(const Program& program, const Binding& binding) {
  return program.buffer(binding.buffer).memory == TSR_MEMORY_DEVICE;
}

}  // namespace

bool is_op(const Program& program, const Action& action) {
  if (is_collective(action.kind) || action.kind == TSR_ACTION_CALL) return false;
  if (program.streams[action.stream].kind == TSR_STREAM_KIND_HOST) return false;
  return action.kind != TSR_ACTION_COPY ||
         std::ranges::all_of(action.bindings, [&](const Binding& b) { return is_in_device_memory(program, b); });
}

bool is_host_op(const Program& program, const Action& action) {
  return program.streams[action.stream].kind == TSR_STREAM_KIND_HOST && !is_collective(action.kind) &&
         action.kind != TSR_ACTION_CALL && action.kind != TSR_ACTION_COPY;
}

OpRate unmeasured(const tsr_op& op, uint64_t num_bytes) {
  return {name_of(op), shape_of(op), num_operations(op), static_cast<double>(num_bytes), 0};
}

OpRate unmeasured(const Program& program, const Action& action) {
  const tsr_op op = op_of(program, action);
  uint64_t num_bytes = 0;
  for (const Binding& binding : action.bindings)
    num_bytes += TSR_NUM_BYTES(program.buffer(binding.buffer).dtype, binding.num_elements);
  OpRate rate = unmeasured(op, num_bytes);
  if (is_host_op(program, action)) rate.op += kOnHost;
  return rate;
}

}  // namespace tessera::host
