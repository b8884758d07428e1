// The names of dtypes, collectives and reductions, as program texts and messages print them; one table for each.
#pragma once

#include "tessera/communicator.h"

namespace tessera {

constexpr const char* collective_name(uint32_t kind) {
  constexpr const char* kNames[] = {"invalid",    "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                    "all_to_all", "send",       "recv",           "exchange",   "barrier"};
  return kind <= TSR_COLL_BARRIER ? kNames[kind] : "unknown";
}
constexpr const char* reduce_name(uint32_t reduce) {
  constexpr const char* kNames[] = {"none", "sum", "avg", "min", "max"};
  return reduce <= TSR_REDUCE_MAX ? kNames[reduce] : "unknown";
}
/// "f32", "bf16", ...; "unknown" for anything but a TSR_* dtype.
constexpr const char* dtype_name(tsr_dtype dtype) {
  constexpr struct {
    tsr_dtype dtype;
    const char* name;
  } kNames[] = {{TSR_I8, "i8"},   {TSR_I32, "i32"}, {TSR_I64, "i64"}, {TSR_U8, "u8"},   {TSR_U16, "u16"},
                {TSR_U32, "u32"}, {TSR_F16, "f16"}, {TSR_F32, "f32"}, {TSR_F64, "f64"}, {TSR_BF16, "bf16"}};
  for (const auto& entry : kNames)
    if (entry.dtype == dtype) return entry.name;
  return "unknown";
}
constexpr bool is_floating(tsr_dtype dtype) {
  return dtype == TSR_F16 || dtype == TSR_BF16 || dtype == TSR_F32 || dtype == TSR_F64;
}
/// Every dtype of the ABI; for caps.
inline constexpr tsr_dtype kAllDtypes[] = {TSR_I8,  TSR_I32, TSR_I64, TSR_U8,  TSR_U16,
                                           TSR_U32, TSR_F16, TSR_F32, TSR_F64, TSR_BF16};

}  // namespace tessera
