// Slots: making them, naming them, and checking that those of an action are the ones its op has.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tessera/device.h"

namespace tessera::cpu {

/// op.dims[dim]; INVALID_ARGUMENT if it is negative.
uint64_t dim(const tsr_op& op, int dim);

/// Dtypes and slots as messages print them: "float32", "src0", "x3".
std::string dtype_name(tsr_dtype dtype);
std::string slot_name(uint32_t slot);

/// Throws INVALID_ARGUMENT unless `bound` holds every slot of `described` that is not optional, none twice and no
/// other, with the same dtype and num_elements, and the same mode save that ADD may have become WRITE.
void check_slots(std::span<const tsr_slot_spec> described, std::span<const tsr_slot_spec> bound);
/// Throws INVALID_ARGUMENT for a slot with mode WRITE that the op reads whatever its mode: state, in-place operands.
void refuse_write(std::span<const tsr_slot_spec> bound, uint32_t slot);

}  // namespace tessera::cpu
