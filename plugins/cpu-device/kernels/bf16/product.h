// Products of bfloat16 matrices: a product of two values is exact in float32, and sums are in float32. With AMX
// by its instructions, through oneDNN's matmul; elsewhere by its sgemm, on operands that are widened a cache's worth at
// a time. (AVX512-BF16 alone is slower than sgemm where it was measured; docs/performance.md.)
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <cstdint>
#include <span>

#include "cpu-device/kernels/matmul.h"

namespace tessera::cpu {

/// Whether the processor has AMX and oneDNN uses it: ONEDNN_MAX_CPU_ISA can disable it. The same in every call. [any
/// thread]
bool has_amx();

/// How a matrix of bfloat16 lies in memory: element (i, j) at i * stride + j, or at j * stride + i if transposed.
struct Bf16Layout {
  uint64_t stride;
  bool transposed = false;
};

/// c[m,n] = a[m,k] b[k,n], or += if `accumulate`, for float32 rows of c that are `c_stride` apart.
class Bf16Product {
 public:
  /// Throws INTERNAL if oneDNN has no such product. [any thread]
  Bf16Product(ProductExtents extents, Bf16Layout a, Bf16Layout b, uint64_t c_stride, bool accumulate);

  /// Runs on the calling thread alone: bits depend on the processor, the extents and the layouts, not on the number of
  /// threads. Throws INTERNAL, and bad_alloc without memory for the thread's scratch. [any thread, several at a time]
  void run(const uint16_t* a, const uint16_t* b, float* c) const;

  struct Result {
    const Bf16Product* product;
    float* c;
  };
  /// Each a with each b: results[j * a.size() + i] = a[i] b[j], the same as run() of each. Without AMX an operand is
  /// widened once for all. The products differ in m of each a, n of each b and the stride of c alone.
  static void run_all(std::span<const uint16_t* const> a, std::span<const uint16_t* const> b,
                      std::span<const Result> results);

 private:
  void multiply(const uint16_t* a, const uint16_t* b, float* c) const;
  static void widen_and_multiply(std::span<const uint16_t* const> a, std::span<const uint16_t* const> b,
                                 std::span<const Result> results);

  const ProductExtents extents_;
  const Bf16Layout layout_a_, layout_b_;
  const uint64_t c_stride_;
  const bool accumulate_;
  dnnl::memory::desc a_, b_, c_, scratch_;
  dnnl::matmul product_;  // with AMX
};

}  // namespace tessera::cpu
