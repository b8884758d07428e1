#include "cpu-device/slots.h"

#include <iterator>
#include <utility>

#include "cpu-device/kernel.h"
#include "tessera/error.hpp"

namespace tessera::cpu {
namespace {

[[noreturn]] void refuse(uint32_t slot, const std::string& reason) {
  throw Error(TSR_E_INVALID_ARGUMENT, "prepare: slot " + slot_name(slot) + " " + reason);
}

void check_slot(const tsr_slot_spec& described, const tsr_slot_spec& bound) {
  if (bound.dtype != described.dtype)
    refuse(bound.slot, "is " + dtype_name(bound.dtype) + "; the op needs " + dtype_name(described.dtype));
  if (bound.num_elements != described.num_elements)
    refuse(bound.slot, "has " + std::to_string(bound.num_elements) + " elements; the op needs " +
                           std::to_string(described.num_elements));
  if (bound.mode != described.mode && !(described.mode == TSR_MODE_ADD && bound.mode == TSR_MODE_WRITE))
    refuse(bound.slot, "has mode " + std::to_string(bound.mode) + "; the op needs " + std::to_string(described.mode));
}

}  // namespace

uint64_t dim(const tsr_op& op, int dim) {
  if (op.dims[dim] < 0)
    throw Error(TSR_E_INVALID_ARGUMENT, "op kind " + std::to_string(op.kind) + " has extent " +
                                            std::to_string(op.dims[dim]) + " in dim " + std::to_string(dim));
  return static_cast<uint64_t>(op.dims[dim]);
}

std::string dtype_name(tsr_dtype dtype) {
  static constexpr std::pair<tsr_dtype, const char*> kNames[] = {
      {TSR_I8, "int8"},    {TSR_I32, "int32"},   {TSR_I64, "int64"},   {TSR_U8, "uint8"},    {TSR_U16, "uint16"},
      {TSR_U32, "uint32"}, {TSR_F16, "float16"}, {TSR_F32, "float32"}, {TSR_F64, "float64"}, {TSR_BF16, "bfloat16"}};
  for (const auto& [value, name] : kNames)
    if (value == dtype) return name;
  return "dtype " + std::to_string(dtype);
}

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

void refuse_write(std::span<const tsr_slot_spec> bound, uint32_t slot) {
  const int i = slot_index(bound, slot);
  if (i >= 0 && bound[static_cast<size_t>(i)].mode == TSR_MODE_WRITE)
    refuse(slot, "is bound with mode write, but the op also reads it: bind it with mode add");
}

}  // namespace tessera::cpu
