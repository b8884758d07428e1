// How the ops of this folder list their slots, and how their kernels find the operands again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cpu-device/kernel.h"

namespace tessera::cpu {

using SlotList = std::vector<tsr_slot_spec>;

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
Operand find_operand(std::span<const tsr_slot_spec> slots, uint32_t role, uint32_t index);

/// The extent `dim` of the op. Throws INVALID_ARGUMENT unless it is positive.
uint64_t extent(const tsr_op& op, int dim);
/// Rows N = batch * seq.
uint64_t num_rows(const tsr_op& op);
/// Throws UNSUPPORTED: this op has no such phase.
[[noreturn]] void refuse_phase(const tsr_op& op);

inline bool has_input_half(uint32_t phase) {
  return phase == TSR_PHASE_BACKWARD || phase == TSR_PHASE_BACKWARD_INPUT;
}
inline bool has_weight_half(uint32_t phase) {
  return phase == TSR_PHASE_BACKWARD || phase == TSR_PHASE_BACKWARD_WEIGHT;
}

/// Slots as describe lists them. Gradients that are written are optional: nobody may need them.
constexpr tsr_slot_spec slot_of(uint32_t role, uint32_t index, uint32_t mode, uint64_t num_elements, uint32_t flags = 0,
                                tsr_dtype dtype = TSR_F32) {
  return {TSR_SLOT(role, index), mode, dtype, flags, num_elements};
}
constexpr tsr_slot_spec parameter(uint32_t index, uint64_t num_elements, tsr_dtype dtype = TSR_F32) {
  return slot_of(TSR_ROLE_PARAMETER, index, TSR_MODE_READ, num_elements, 0, dtype);
}
constexpr tsr_slot_spec gradient(uint32_t index, uint64_t num_elements) {
  return slot_of(TSR_ROLE_GRADIENT, index, TSR_MODE_ADD, num_elements, TSR_SLOT_OPTIONAL);
}
constexpr tsr_slot_spec input(uint32_t index, uint64_t num_elements, tsr_dtype dtype = TSR_F32) {
  return slot_of(TSR_ROLE_INPUT, index, TSR_MODE_READ, num_elements, 0, dtype);
}
constexpr tsr_slot_spec output(uint32_t index, uint64_t num_elements, uint32_t flags = 0, tsr_dtype dtype = TSR_F32) {
  return slot_of(TSR_ROLE_OUTPUT, index, TSR_MODE_WRITE, num_elements, flags, dtype);
}
constexpr tsr_slot_spec kept_output(uint32_t index, uint64_t num_elements) {
  return slot_of(TSR_ROLE_OUTPUT, index, TSR_MODE_READ, num_elements);
}
constexpr tsr_slot_spec input_gradient(uint32_t index, uint64_t num_elements) {
  return slot_of(TSR_ROLE_INPUT_GRADIENT, index, TSR_MODE_ADD, num_elements, TSR_SLOT_OPTIONAL);
}
constexpr tsr_slot_spec output_gradient(uint32_t index, uint64_t num_elements) {
  return slot_of(TSR_ROLE_OUTPUT_GRADIENT, index, TSR_MODE_READ, num_elements);
}
constexpr tsr_slot_spec saved(uint32_t index, uint64_t num_elements) {
  return slot_of(TSR_ROLE_SAVED, index, TSR_MODE_WRITE, num_elements, TSR_SLOT_OPTIONAL);
}
constexpr tsr_slot_spec kept_saved(uint32_t index, uint64_t num_elements) {
  return slot_of(TSR_ROLE_SAVED, index, TSR_MODE_READ, num_elements);
}
constexpr tsr_slot_spec workspace(uint32_t index, uint64_t num_elements) {
  return slot_of(TSR_ROLE_WORKSPACE, index, TSR_MODE_WRITE, num_elements);
}
/// What the input half of a backward leaves for the weight half: scratch when both run as one.
constexpr tsr_slot_spec context(uint32_t phase, uint32_t index, uint64_t num_elements) {
  if (phase == TSR_PHASE_BACKWARD) return workspace(index, num_elements);
  return slot_of(TSR_ROLE_CONTEXT, index, phase == TSR_PHASE_BACKWARD_INPUT ? TSR_MODE_WRITE : TSR_MODE_READ,
                 num_elements);
}
/// The operand of the slot that context() listed.
inline Operand find_context(const tsr_op& op, std::span<const tsr_slot_spec> slots, uint32_t index) {
  return find_operand(slots, op.phase == TSR_PHASE_BACKWARD ? TSR_ROLE_WORKSPACE : TSR_ROLE_CONTEXT, index);
}

/// OpFamily::prepare of a family with one kernel for the forward and one for all phases of the backward.
template <class Forward, class Backward>
std::unique_ptr<Kernel> prepare_forward_or_backward(const tsr_op& op, std::span<const tsr_slot_spec> slots,
                                                    int num_threads) {
  if (op.phase == TSR_PHASE_FORWARD) return std::make_unique<Forward>(op, slots, num_threads);
  return std::make_unique<Backward>(op, slots, num_threads);
}

}  // namespace tessera::cpu
