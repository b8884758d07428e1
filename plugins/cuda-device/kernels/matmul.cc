// cuBLASLt is column-major. A row-major C = A B is, read column by column, C^T = B^T A^T: so it is given our b as its A
// and our a as its B, with m and n exchanged, and nothing is transposed in memory. Each plan holds a description,
// layouts and one algorithm; launching it sets the epilogue's pointers and enqueues. Only algorithms that add parts in
// float32 in a step of their own are allowed (make_preference): the others round in between, or add in an order that is
// not promised.
#include "cuda-device/kernels/matmul.h"

#include <string>

#include "cuda-device/context.h"
#include "tessera/error.hpp"

namespace tessera::cuda {
namespace {

constexpr uint64_t kWorkspaceBytes = uint64_t{32} << 20;  // what NVIDIA recommends for Hopper; less does for others

cudaDataType cuda_type(tsr_dtype dtype) {
  switch (dtype) {
    case TSR_F32:
      return CUDA_R_32F;
    case TSR_BF16:
      return CUDA_R_16BF;
    case TSR_F16:
      return CUDA_R_16F;
    default:
      throw Error(TSR_E_INTERNAL, "a product of " + op::dtype_name(dtype));
  }
}

cublasComputeType_t compute_type(const Product& product, const Context& context) {
  const bool tf32 = product.dtype == TSR_F32 && context.options().allow_tf32;
  return tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// A row-major [rows, columns] is a column-major [columns, rows].
MatrixLayout make_factor_layout(const CublasLt& library, const Product& product, const Factor& factor, uint64_t rows,
                                uint64_t columns) {
  const cudaDataType type = cuda_type(product.dtype);
  return factor.transposed ? library.make_layout(type, rows, columns, factor.stride)
                           : library.make_layout(type, columns, rows, factor.stride);
}

cublasLtEpilogue_t library_epilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kGelu:
      return CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::kGeluBias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::kBiasGradient:
      return CUBLASLT_EPILOGUE_BGRADA;  // the library's A is our b
    default:
      return CUBLASLT_EPILOGUE_DEFAULT;
  }
}

bool has_bias(Epilogue epilogue) {
  return epilogue == Epilogue::kBias || epilogue == Epilogue::kGeluBias || epilogue == Epilogue::kBiasGradient;
}
bool has_aux(Epilogue epilogue) {
  return epilogue == Epilogue::kGelu || epilogue == Epilogue::kGeluBias;
}

MatmulDescription make_description(const CublasLt& library, const Product& product, const Context& context) {
  MatmulDescription description = library.make_description(compute_type(product, context));
  const auto transpose = [](const Factor& factor) -> int32_t { return factor.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  library.set(description, CUBLASLT_MATMUL_DESC_TRANSA, transpose(product.b));
  library.set(description, CUBLASLT_MATMUL_DESC_TRANSB, transpose(product.a));
  library.set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(library_epilogue(product.epilogue)));
  if (has_aux(product.epilogue))
    library.set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<int64_t>(product.out_stride));
  return description;
}

void set_epilogue_pointers(const CublasLt& library, const MatmulDescription& description, void* bias, void* aux) {
  if (bias) library.set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (aux) library.set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
}

MatmulPreference make_preference(const CublasLt& library, uint64_t alignment) {
  MatmulPreference preference = library.make_preference();
  library.set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  library.set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
              static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    library.set(preference, attribute, static_cast<uint32_t>(alignment));
  return preference;
}

std::string matrix_name(tsr_dtype dtype, uint64_t rows, uint64_t columns) {
  return op::dtype_name(dtype) + "[" + std::to_string(rows) + "," + std::to_string(columns) + "]";
}
std::string product_name(const Product& product) {
  return matrix_name(product.out_dtype, product.m, product.n) + " = " +
         matrix_name(product.dtype, product.m, product.k) + (product.a.transposed ? " (transposed) " : " ") +
         matrix_name(product.dtype, product.k, product.n) + (product.b.transposed ? " (transposed)" : "");
}

}  // namespace

tsr_slot_spec matmul_workspace(uint32_t index) {
  return op::workspace(index, kWorkspaceBytes + kBufferAlignment, TSR_U8);
}

MatmulPlan::MatmulPlan(const Product& product, uint64_t alignment, Context& context)
    : library_(&context.cublaslt()),
      alignment_(alignment),
      description_(make_description(*library_, product, context)),
      layouts_{make_factor_layout(*library_, product, product.b, product.k, product.n),
               make_factor_layout(*library_, product, product.a, product.m, product.k),
               library_->make_layout(cuda_type(product.out_dtype), product.n, product.m, product.out_stride)} {}

// The library's first choice, by its heuristics alone. Measuring candidates would be faster by some percent and choose
// differently from run to run.
std::optional<MatmulPlan> MatmulPlan::find(const Product& product, uint64_t alignment, Context& context) {
  MatmulPlan plan(product, alignment, context);
  // The library looks at the alignment of these pointers too, and not at what they point to.
  void* const aligned = reinterpret_cast<void*>(alignment);
  set_epilogue_pointers(*plan.library_, plan.description_, has_bias(product.epilogue) ? aligned : nullptr,
                        has_aux(product.epilogue) ? aligned : nullptr);
  if (!plan.library_->find_algorithm(plan.description_, plan.layouts_, make_preference(*plan.library_, alignment),
                                     &plan.algorithm_))
    return std::nullopt;
  return plan;
}

bool MatmulPlan::takes(const ProductOperands& operands) const {
  for (const void* pointer : {operands.a, operands.b, static_cast<const void*>(operands.out),
                              static_cast<const void*>(operands.bias), static_cast<const void*>(operands.aux)})
    if (!starts_at_multiple(pointer, alignment_)) return false;
  return true;
}

void MatmulPlan::launch(cudaStream_t stream, const ProductOperands& operands) const {
  set_epilogue_pointers(*library_, description_, operands.bias, operands.aux);
  library_->matmul(description_, layouts_, algorithm_, operands.b, operands.a, operands.accumulates ? 1.0f : 0.0f,
                   operands.out, align_up(operands.workspace), kWorkspaceBytes, stream);
}

Matmul::Matmul(const Product& product, Context& context)
    : aligned_(MatmulPlan::find(product, kBufferAlignment, context)),
      any_(MatmulPlan::find(product, kMinAlignment, context)) {
  if (aligned_ || any_) return;
  throw Error(TSR_E_UNSUPPORTED,
              context.cublaslt().name() + " has no algorithm on this GPU for " + product_name(product));
}

// The plan for 256 bytes if the operands allow it, else the one for 4: both exist since prepare, so a launch never
// plans.
void Matmul::launch(cudaStream_t stream, const ProductOperands& operands) const {
  for (const std::optional<MatmulPlan>* plan : {&aligned_, &any_})
    if (*plan && (*plan)->takes(operands)) return (*plan)->launch(stream, operands);
  throw Error(TSR_E_UNSUPPORTED, "a product's operands start at addresses that are not multiples of " +
                                     std::to_string(kBufferAlignment) +
                                     ", for which cuBLASLt has no algorithm of these extents");
}

}  // namespace tessera::cuda
