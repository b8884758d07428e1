// Are the slots of an action those that its op has?
#pragma once

#include <span>
#include <string>

#include "tessera/device.h"

namespace tessera::cpu {

/// A slot as messages print it: "src0", "x3".
std::string slot_name(uint32_t slot);

/// Throws INVALID_ARGUMENT unless `bound` holds every slot of `described` that is not optional, none twice and no
/// other, with the same dtype and num_elements, and the same mode save that ADD may have become WRITE.
void check_slots(std::span<const tsr_slot_spec> described, std::span<const tsr_slot_spec> bound);

}  // namespace tessera::cpu
