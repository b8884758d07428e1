// Values in memory are float32, bfloat16 or float16; in registers they are float32, rounded once when they are written.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tessera/operands.hpp"

namespace tessera::cuda {

inline constexpr float kLog2E = 1.44269504f;  // e^x = 2^(kLog2E x): the hardware has the power of two

__device__ inline float to_float(float value) {
  return value;
}
__device__ inline float to_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ inline float to_float(__half value) {
  return __half2float(value);
}

/// `value` rounded to nearest even.
template <class T>
__device__ T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ inline __half from_float<__half>(float value) {
  return __float2half_rn(value);
}

/// *target = value, or *target += value in float32.
template <class T>
__device__ inline void write_or_add(T* target, float value, bool adds) {
  *target = from_float<T>(adds ? to_float(*target) + value : value);
}

/// body(T{}) with the type of `dtype`: float, __nv_bfloat16 or __half.
template <class Body>
auto with_value_type(tsr_dtype dtype, const Body& body) {
  switch (dtype) {
    case TSR_F32:
      return body(float{});
    case TSR_BF16:
      return body(__nv_bfloat16{});
    case TSR_F16:
      return body(__half{});
    default:
      throw Error(TSR_E_UNSUPPORTED,
                  "values of " + op::dtype_name(dtype) + " are not computed here; float32, bfloat16 and float16 are");
  }
}

}  // namespace tessera::cuda
