#include "cpu-device/slots.h"

#include "cpu-device/kernel.h"
#include "tessera/error.hpp"

namespace tessera::cpu {
namespace {

[[noreturn]] void refuse(uint32_t slot, const std::string& reason) {
  throw Error(TSR_E_INVALID_ARGUMENT, "prepare: slot " + slot_name(slot) + " " + reason);
}

void check_slot(const tsr_slot_spec& described, const tsr_slot_spec& bound) {
  if (bound.dtype != described.dtype)
    refuse(bound.slot,
           "has dtype " + std::to_string(bound.dtype) + "; the op needs " + std::to_string(described.dtype));
  if (bound.num_elements != described.num_elements)
    refuse(bound.slot, "has " + std::to_string(bound.num_elements) + " elements; the op needs " +
                           std::to_string(described.num_elements));
  if (bound.mode != described.mode && !(described.mode == TSR_MODE_ADD && bound.mode == TSR_MODE_WRITE))
    refuse(bound.slot, "has mode " + std::to_string(bound.mode) + "; the op needs " + std::to_string(described.mode));
}

}  // namespace

std::string slot_name(uint32_t slot) {
  static constexpr const char* kRoles[] = {"?", "p", "g", "i", "o", "di", "do", "s", "c", "w", "src", "dst", "x", "st"};
  const uint32_t role = TSR_SLOT_ROLE(slot);
  return kRoles[role < std::size(kRoles) ? role : 0] + std::to_string(TSR_SLOT_INDEX(slot));
}

void check_slots(std::span<const tsr_slot_spec> described, std::span<const tsr_slot_spec> bound) {
  for (size_t i = 0; i < bound.size(); ++i) {
    const int position = slot_index(described, bound[i].slot);
    if (position < 0) refuse(bound[i].slot, "is not one of the op's");
    if (slot_index(bound, bound[i].slot) != static_cast<int>(i)) refuse(bound[i].slot, "is bound twice");
    check_slot(described[static_cast<size_t>(position)], bound[i]);
  }
  for (const tsr_slot_spec& slot : described)
    if (!(slot.flags & TSR_SLOT_OPTIONAL) && slot_index(bound, slot.slot) < 0)
      refuse(slot.slot, "is missing; only optional slots may be left out");
}

}  // namespace tessera::cpu
