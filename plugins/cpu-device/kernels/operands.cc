#include "cpu-device/kernels/operands.h"

#include <string>

#include "tessera/error.hpp"

namespace tessera::cpu {

Operand find_operand(std::span<const tsr_slot_spec> slots, uint32_t role, uint32_t index) {
  const int position = slot_index(slots, TSR_SLOT(role, index));
  return {position, position >= 0 && slots[static_cast<size_t>(position)].mode == TSR_MODE_ADD};
}

uint64_t extent(const tsr_op& op, int dim) {
  if (op.dims[dim] <= 0)
    throw Error(TSR_E_INVALID_ARGUMENT, "op " + std::to_string(op.kind) + " has extent " +
                                            std::to_string(op.dims[dim]) + " in dim " + std::to_string(dim) +
                                            "; it must be positive");
  return static_cast<uint64_t>(op.dims[dim]);
}

uint64_t num_rows(const tsr_op& op) {
  return extent(op, TSR_DIM_BATCH) * extent(op, TSR_DIM_SEQ);
}

void refuse_phase(const tsr_op& op) {
  throw Error(TSR_E_UNSUPPORTED, "op " + std::to_string(op.kind) + " has no phase " + std::to_string(op.phase));
}

}  // namespace tessera::cpu
