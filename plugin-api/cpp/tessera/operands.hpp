// SPDX-License-Identifier: Apache-2.0
// For authors of devices: how slots are listed by describe, checked by prepare, and found again among the pointers of a
// launch. All functions: [any-thread]. What they throw is INVALID_ARGUMENT unless said otherwise.
//
//     describe(op)          -> {p:0, i:0, o:0, s:0?}            slot_of, context, workspace
//     prepare(op, slots)       check_slots; then find_operand   once, off the hot path
//     launch(pointers)         operand.in(pointers)             an index, no search
#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/device.h"
#include "tessera/error.hpp"
#include "tessera/op_table.hpp"

namespace tessera::op {

using SlotList = std::vector<tsr_slot_spec>;

/// Dtypes, slots, modes, phases and ops as messages print them: "float32", "src0", "write", "forward", "linear".
inline std::string dtype_name(tsr_dtype dtype) {
  static constexpr std::pair<tsr_dtype, const char*> kNames[] = {
      {TSR_I8, "int8"},    {TSR_I32, "int32"},   {TSR_I64, "int64"},   {TSR_U8, "uint8"},    {TSR_U16, "uint16"},
      {TSR_U32, "uint32"}, {TSR_F16, "float16"}, {TSR_F32, "float32"}, {TSR_F64, "float64"}, {TSR_BF16, "bfloat16"}};
  for (const auto& [value, name] : kNames)
    if (value == dtype) return name;
  return "dtype " + std::to_string(dtype);
}
inline std::string slot_name(uint32_t slot) {
  static constexpr const char* kRoles[] = {"?", "p", "g", "i", "o", "di", "do", "s", "c", "w", "src", "dst", "x", "st"};
  const uint32_t role = TSR_SLOT_ROLE(slot);
  return kRoles[role < std::size(kRoles) ? role : 0] + std::to_string(TSR_SLOT_INDEX(slot));
}

inline std::string mode_name(uint32_t mode) {
  static constexpr const char* kModes[] = {"none", "read", "write", "add"};
  return mode < std::size(kModes) ? kModes[mode] : "unknown";
}
inline std::string phase_name(uint32_t phase) {
  static constexpr const char* kPhases[] = {"none", "forward", "backward", "backward_input", "backward_weight"};
  return phase < std::size(kPhases) ? kPhases[phase] : "unknown";
}
/// TSR_OP_* in small letters: "layer_norm"; the number of what the table lacks.
inline std::string op_name(uint32_t kind) {
  const OpEntry* entry = find_op(kind);
  return entry ? std::string(entry->name()) : "of unknown kind " + std::to_string(kind);
}

/// Position of `slot` in `slots`, or -1 if it is not there.
inline int slot_index(std::span<const tsr_slot_spec> slots, uint32_t slot) {
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i].slot == slot) return static_cast<int>(i);
  return -1;
}

// ---- extents ----------------------------------------------------------------------------------------------------

/// "embed", ...: TSR_DIM_* in lower case.
constexpr const char* dim_name(int dim) {
  constexpr const char* kNames[] = {"none",      "batch",    "seq", "heads", "embed",    "ffn",    "vocab",
                                    "positions", "head_dim", "in",  "out",   "elements", "classes"};
  return dim >= 0 && dim <= int{TSR_DIM_CLASSES} ? kNames[dim] : "unknown";
}

/// The extent `dim` of the op. Throws if it is less than `least`.
inline uint64_t extent(const tsr_op& op, int dim, int64_t least = 1) {
  if (op.dims[dim] < least)
    throw Error(TSR_E_INVALID_ARGUMENT, "op " + op_name(op.kind) + " has extent " + std::to_string(op.dims[dim]) +
                                            " in dim " + dim_name(dim) + "; it must be at least " +
                                            std::to_string(least));
  return static_cast<uint64_t>(op.dims[dim]);
}
/// Throws UNSUPPORTED for an attribute or extent of an op of the ABI that is not 0 though that op has none in this
/// minor: a later host means something by it.
inline void check_known(const tsr_op& op) {
  const OpEntry* const entry = find_op(op.kind);
  if (!entry) return;
  const auto refuse = [&](const char* array, size_t index, const auto& value) {
    throw Error(TSR_E_UNSUPPORTED, "op " + op_name(op.kind) + " has " + std::to_string(value) + " in " + array + "[" +
                                       std::to_string(index) + "], which is not known here");
  };
  for (size_t i = 0; i < TSR_NUM_DIMS; ++i)
    if (op.dims[i] != 0 && !(entry->dims >> i & 1)) refuse("dims", i, op.dims[i]);
  for (size_t i = 0; i < TSR_NUM_ATTRIBUTES; ++i)
    if (op.attributes[i] != 0 && !(entry->attributes >> i & 1)) refuse("attributes", i, op.attributes[i]);
  for (size_t i = 0; i < TSR_NUM_OWN; ++i)
    if (op.own[i] != 0) refuse("own", i, op.own[i]);
  if (const double has_bias = op.attributes[TSR_ATTR_HAS_BIAS]; has_bias != 0 && has_bias != 1)
    refuse("attributes", TSR_ATTR_HAS_BIAS, has_bias);
}

/// Rows N = batch * seq.
inline uint64_t num_rows(const tsr_op& op) {
  return extent(op, TSR_DIM_BATCH) * extent(op, TSR_DIM_SEQ);
}

/// Elements of the largest operand of an elementwise or step op; may be 0. Throws if negative.
inline uint64_t num_elements(const tsr_op& op) {
  return extent(op, TSR_DIM_ELEMENTS, 0);
}

inline bool has_input_half(uint32_t phase) {
  return phase == TSR_PHASE_BACKWARD || phase == TSR_PHASE_BACKWARD_INPUT;
}
inline bool has_weight_half(uint32_t phase) {
  return phase == TSR_PHASE_BACKWARD || phase == TSR_PHASE_BACKWARD_WEIGHT;
}
/// Throws UNSUPPORTED: this op has no such phase.
[[noreturn]] inline void refuse_phase(const tsr_op& op) {
  throw Error(TSR_E_UNSUPPORTED, "op " + op_name(op.kind) + " has no phase " + phase_name(op.phase));
}

// ---- making slots -----------------------------------------------------------------------------------------------

constexpr tsr_slot_spec slot_of(uint32_t role, uint32_t index, uint32_t mode, uint64_t num_elements, tsr_dtype dtype,
                                uint32_t flags = 0) {
  return {TSR_SLOT(role, index), mode, dtype, flags, num_elements};
}
constexpr tsr_slot_spec workspace(uint32_t index, uint64_t num_elements, tsr_dtype dtype = TSR_F32) {
  return slot_of(TSR_ROLE_WORKSPACE, index, TSR_MODE_WRITE, num_elements, dtype);
}
/// What the input half of a backward leaves for the weight half: a context that lives from one to the other, and
/// scratch when both run as one.
constexpr tsr_slot_spec context(uint32_t phase, uint32_t index, uint64_t num_elements, tsr_dtype dtype = TSR_F32) {
  if (phase == TSR_PHASE_BACKWARD) return workspace(index, num_elements, dtype);
  return slot_of(TSR_ROLE_CONTEXT, index, phase == TSR_PHASE_BACKWARD_INPUT ? TSR_MODE_WRITE : TSR_MODE_READ,
                 num_elements, dtype);
}

// ---- checking slots ---------------------------------------------------------------------------------------------

[[noreturn]] inline void refuse_slot(uint32_t slot, const std::string& reason) {
  throw Error(TSR_E_INVALID_ARGUMENT, "prepare: slot " + slot_name(slot) + " " + reason);
}
inline void check_slot(const tsr_slot_spec& described, const tsr_slot_spec& bound) {
  if (bound.dtype != described.dtype)
    refuse_slot(bound.slot, "is " + dtype_name(bound.dtype) + "; the op needs " + dtype_name(described.dtype));
  if (bound.num_elements != described.num_elements)
    refuse_slot(bound.slot, "has " + std::to_string(bound.num_elements) + " elements; the op needs " +
                                std::to_string(described.num_elements));
  if (bound.mode != described.mode && !(described.mode == TSR_MODE_ADD && bound.mode == TSR_MODE_WRITE))
    refuse_slot(bound.slot, "has mode " + mode_name(bound.mode) + "; the op needs " + mode_name(described.mode));
}
/// Throws unless `bound` holds every slot of `described` that is not optional, none twice and no other, with the same
/// dtype and num_elements, and the same mode save that ADD may have become WRITE.
inline void check_slots(std::span<const tsr_slot_spec> described, std::span<const tsr_slot_spec> bound) {
  for (size_t i = 0; i < bound.size(); ++i) {
    const int position = slot_index(described, bound[i].slot);
    if (position < 0) refuse_slot(bound[i].slot, "is not one of the op's");
    if (slot_index(bound, bound[i].slot) != static_cast<int>(i)) refuse_slot(bound[i].slot, "is bound twice");
    check_slot(described[static_cast<size_t>(position)], bound[i]);
  }
  for (const tsr_slot_spec& slot : described)
    if (!(slot.flags & TSR_SLOT_OPTIONAL) && slot_index(bound, slot.slot) < 0)
      refuse_slot(slot.slot, "is missing; only optional slots may be left out");
}
/// Throws for a slot with mode WRITE that the op reads whatever its mode: state, in-place operands.
inline void refuse_write(std::span<const tsr_slot_spec> bound, uint32_t slot) {
  const int i = slot_index(bound, slot);
  if (i >= 0 && bound[static_cast<size_t>(i)].mode == TSR_MODE_WRITE)
    refuse_slot(slot, "is bound with mode write, but the op also reads it: bind it with mode add");
}

// ---- finding operands -------------------------------------------------------------------------------------------

/// One operand of a kernel: where launch finds it, and whether the kernel adds to it or overwrites it.
struct Operand {
  int position = -1;
  bool accumulates = false;

  bool is_bound() const { return position >= 0; }
  /// Its address in this launch; nullptr if it was left out.
  template <class T = float>
  T* in(void* const* pointers) const {
    return is_bound() ? static_cast<T*>(pointers[position]) : nullptr;
  }
};

/// The operand of `role` and `index`, unbound if the action left it out.
inline Operand find_operand(std::span<const tsr_slot_spec> slots, uint32_t role, uint32_t index) {
  const int position = slot_index(slots, TSR_SLOT(role, index));
  return {position, position >= 0 && slots[static_cast<size_t>(position)].mode == TSR_MODE_ADD};
}
/// The operand of the slot that context() listed.
inline Operand find_context(const tsr_op& op, std::span<const tsr_slot_spec> slots, uint32_t index) {
  return find_operand(slots, op.phase == TSR_PHASE_BACKWARD ? TSR_ROLE_WORKSPACE : TSR_ROLE_CONTEXT, index);
}

}  // namespace tessera::op
