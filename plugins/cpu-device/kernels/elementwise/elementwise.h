// The loops of the elementwise ops, for every instruction set (elementwise_simd.cc), and the teams that run them.
// Element i of the result depends on element i of the operands only. Operands do not overlap; pointers are aligned to
// their element.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu-device/kernels/simd.h"
#include "tessera/core.h"

namespace tessera::cpu {

/// dst[i] = f(src[i]) or dst[i] += src[i], of the dtypes in the loop's name.
using ElementLoop = void (*)(void* dst, const void* src, size_t num_elements);
/// dst[i] *= factor.
using ScaleLoop = void (*)(void* dst, double factor, size_t num_elements);

// Casts round to nearest even; a NaN stays a NaN. bfloat16 and float16 values lie in 16-bit words; they are added and
// scaled in float32, and rounded once.
TESSERA_SIMD_DECLARE(                                                     //
    void cast_f32_bf16(void* dst, const void* src, size_t num_elements);  //
    void cast_bf16_f32(void* dst, const void* src, size_t num_elements);  //
    void cast_f32_f16(void* dst, const void* src, size_t num_elements);   //
    void cast_f16_f32(void* dst, const void* src, size_t num_elements);   //
    void cast_f32_f64(void* dst, const void* src, size_t num_elements);   //
    void cast_f64_f32(void* dst, const void* src, size_t num_elements);   //
    void add_f32(void* dst, const void* src, size_t num_elements);        //
    void add_f64(void* dst, const void* src, size_t num_elements);        //
    void add_i64(void* dst, const void* src, size_t num_elements);        //
    void add_bf16(void* dst, const void* src, size_t num_elements);       //
    void add_f16(void* dst, const void* src, size_t num_elements);        //
    void scale_f32(void* dst, double factor, size_t num_elements);        //
    void scale_f64(void* dst, double factor, size_t num_elements);        //
    void scale_bf16(void* dst, double factor, size_t num_elements);       //
    void scale_f16(void* dst, double factor, size_t num_elements);)

/// A loop over two operands with the bytes of their elements.
struct SizedLoop {
  ElementLoop loop = nullptr;  ///< nullptr: copies bytes
  uint64_t dst_bytes = 0, src_bytes = 0;
};
/// The conversion of one dtype to another. Throws UNSUPPORTED unless one of them is float32, the other bfloat16,
/// float16 or float64.
SizedLoop cast_loop(tsr_dtype from, tsr_dtype to);
/// Runs the loop over whole operands, cut over the team.
void run_loop(const SizedLoop& loop, void* dst, const void* src, uint64_t num_elements, int num_threads);

}  // namespace tessera::cpu
