// Products of row-major matrices by cuBLASLt, which is column-major: C = A B is computed as C^T = B^T A^T, by swapping
// the operands. Nothing is transposed in memory.
#pragma once

#include <cstdint>
#include <optional>

#include "cuda-device/kernels/alignment.h"
#include "cuda-device/libraries/cublaslt.h"
#include "tessera/operands.hpp"

namespace tessera::cuda {

class Context;

/// How a factor lies in memory: its element (i, j) is at i * stride + j, or at j * stride + i if transposed.
struct Factor {
  uint64_t stride;
  bool transposed = false;
};

/// What is fused to a product.
enum class Epilogue {
  kNone,
  kBias,         ///< out = a b + bias[n]
  kGelu,         ///< z = a b, aux = z, out = gelu(z) of the z that is not rounded; tanh form
  kGeluBias,     ///< z = a b + bias[n], and so on
  kBiasGradient  ///< bias[n] = sum over k of b
};

/// out[m,n] = a[m,k] b[k,n], with sums in float32.
struct Product {
  uint64_t m, n, k;
  Factor a, b;
  uint64_t out_stride;
  tsr_dtype dtype;      // of a and b: float32, bfloat16 or float16
  tsr_dtype out_dtype;  // of out, bias and aux: the same, or float32
  Epilogue epilogue = Epilogue::kNone;
};

/// The operands of one launch.
struct ProductOperands {
  const void* a;
  const void* b;
  void* out;
  void* workspace;           // of matmul_workspace
  bool accumulates = false;  // out += a b
  void* bias = nullptr;      // [n]; kBias and kGeluBias read it, kBiasGradient writes it
  void* aux = nullptr;       // [m,n] with out's stride; kGelu and kGeluBias write it
};

/// The workspace of an op with products, shared by all of them: enough for every algorithm on every GPU.
tsr_slot_spec matmul_workspace(uint32_t index);

/// An algorithm of the library for one product whose operands start at multiples of `alignment` bytes.
///
/// A product may be cut along k only if the parts stay float32 and are added in a step of their own (COMPUTE_TYPE).
/// Forbidden is what meets in the output (INPLACE) or in its type (OUTPUT_TYPE): parts would be rounded to 16 bits. So
/// bits depend on the extents and the alignment, the library and the GPU, and on nothing else.
class MatmulPlan {
 public:
  /// nullopt if the library has none. `context` outlives the plan. [control-thread]
  static std::optional<MatmulPlan> find(const Product& product, uint64_t alignment, Context& context);

  /// Do the operands start there?
  bool takes(const ProductOperands& operands) const;
  /// Enqueues the product; takes(operands). [issue-thread]
  void launch(cudaStream_t stream, const ProductOperands& operands) const;

 private:
  MatmulPlan(const Product& product, uint64_t alignment, Context& context);

  const CublasLt* library_;
  uint64_t alignment_;
  MatmulDescription description_;
  MatmulLayouts layouts_;
  cublasLtMatmulAlgo_t algorithm_{};
};

/// A product of operands that may start at any multiple of 4 bytes; better aligned ones have a faster algorithm.
class Matmul {
 public:
  /// Throws UNSUPPORTED if the library has no algorithm. [control-thread]
  Matmul(const Product& product, Context& context);
  /// Enqueues the product. [issue-thread]
  void launch(cudaStream_t stream, const ProductOperands& operands) const;

 private:
  std::optional<MatmulPlan> aligned_, any_;
};

}  // namespace tessera::cuda
