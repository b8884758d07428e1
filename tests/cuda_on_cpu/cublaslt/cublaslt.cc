// The functions of cuBLASLt that our plugins call, with plain loops. What the library refuses is refused here too.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "cuda_on_cpu.h"

namespace {

struct Description {
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;
  int64_t aux_stride = 0;
};
struct Layout {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t stride;

  uint64_t num_bytes() const {
    const uint64_t elements = static_cast<uint64_t>(stride) * (columns - 1) + rows;
    return elements * (type == CUDA_R_32F ? 4 : 2);
  }
};
struct Preference {
  uint64_t workspace_bytes;
  uint32_t alignment[4];
};

template <class T, class Handle>
T& as(Handle handle) {
  return *reinterpret_cast<T*>(handle);
}

float load(cudaDataType type, const void* data, uint64_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[i];
  if (type == CUDA_R_16BF) return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
  return __half2float(static_cast<const __half*>(data)[i]);
}
void store(cudaDataType type, float value, void* data, uint64_t i) {
  if (type == CUDA_R_32F)
    static_cast<float*>(data)[i] = value;
  else if (type == CUDA_R_16BF)
    static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(value);
  else
    static_cast<__half*>(data)[i] = __float2half_rn(value);
}

bool adds_bias(uint32_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
bool is_gelu(uint32_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
float gelu(float z) {
  return 0.5f * z * (1.0f + std::tanh(0.7978845608f * (z + 0.044715f * z * z * z)));
}

/// Column-major D[m,n] = op(A) op(B) + beta D, with what the description fuses.
struct Product {
  Description description;
  Layout a, b, d;
  const void *a_data, *b_data;
  void* d_data;
  float beta;

  uint64_t m() const { return d.rows; }
  uint64_t n() const { return d.columns; }
  uint64_t k() const { return description.transpose_a == CUBLAS_OP_N ? a.columns : a.rows; }

  /// op(A) by rows or op(B) by columns, in float32: lines of k values.
  static std::vector<float> lines(const Layout& layout, const void* data, bool line_is_column, uint64_t count,
                                  uint64_t length) {
    std::vector<float> values(count * length);
    for (uint64_t i = 0; i < count; ++i)
      for (uint64_t p = 0; p < length; ++p) {
        const uint64_t row = line_is_column ? p : i, column = line_is_column ? i : p;
        values[i * length + p] = load(layout.type, data, column * static_cast<uint64_t>(layout.stride) + row);
      }
    return values;
  }

  void run() const {
    const auto rows = lines(a, a_data, description.transpose_a != CUBLAS_OP_N, m(), k());
    const auto columns = lines(b, b_data, description.transpose_b == CUBLAS_OP_N, n(), k());
    for (uint64_t j = 0; j < n(); ++j)
      for (uint64_t i = 0; i < m(); ++i)
        write(i, j, dot(&rows[i * k()], &columns[j * k()]));
    if (description.epilogue == CUBLASLT_EPILOGUE_BGRADA)
      for (uint64_t i = 0; i < m(); ++i) {
        float sum = 0.0f;
        for (uint64_t p = 0; p < k(); ++p)
          sum += rows[i * k() + p];
        store(d.type, sum, description.bias, i);
      }
  }

  float dot(const float* x, const float* y) const {
    float lanes[8] = {};
    uint64_t p = 0;
    for (; p + 8 <= k(); p += 8)
      for (int lane = 0; lane < 8; ++lane)
        lanes[lane] += x[p + static_cast<uint64_t>(lane)] * y[p + static_cast<uint64_t>(lane)];
    float sum = 0.0f;
    for (const float lane : lanes)
      sum += lane;
    for (; p < k(); ++p)
      sum += x[p] * y[p];
    return sum;
  }

  void write(uint64_t i, uint64_t j, float value) const {
    const uint64_t at = j * static_cast<uint64_t>(d.stride) + i;
    if (beta != 0.0f) value += beta * load(d.type, d_data, at);
    if (adds_bias(description.epilogue)) value += load(d.type, description.bias, i);
    if (is_gelu(description.epilogue)) {
      store(d.type, value, description.aux, j * static_cast<uint64_t>(description.aux_stride) + i);
      value = gelu(value);
    }
    store(d.type, value, d_data, at);
  }
};

bool is_supported(const Description& description, const Layout& a, const Layout& b, const Layout& d) {
  const uint64_t m = description.transpose_a == CUBLAS_OP_N ? a.rows : a.columns;
  const uint64_t k = description.transpose_a == CUBLAS_OP_N ? a.columns : a.rows;
  const uint64_t k_of_b = description.transpose_b == CUBLAS_OP_N ? b.rows : b.columns;
  const uint64_t n = description.transpose_b == CUBLAS_OP_N ? b.columns : b.rows;
  if (m != d.rows || n != d.columns || k != k_of_b || a.type != b.type) return false;
  if (d.type != a.type && d.type != CUDA_R_32F) return false;
  for (const Layout* layout : {&a, &b, &d})
    if (layout->stride < static_cast<int64_t>(layout->rows)) return false;
  const uint32_t e = description.epilogue;
  if (e != CUBLASLT_EPILOGUE_DEFAULT && e != CUBLASLT_EPILOGUE_BGRADA && !adds_bias(e) && !is_gelu(e)) return false;
  // Of the library: the stride of aux is a multiple of 8.
  return !is_gelu(e) || (description.aux_stride % 8 == 0 && description.aux_stride >= static_cast<int64_t>(m));
}

}  // namespace

#define CUBLASLT_ON_CPU_API extern "C" __attribute__((visibility("default")))

CUBLASLT_ON_CPU_API cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static int the_handle;
  *handle = reinterpret_cast<cublasLtHandle_t>(&the_handle);
  return CUBLAS_STATUS_SUCCESS;
}
CUBLASLT_ON_CPU_API cublasStatus_t cublasLtDestroy(cublasLtHandle_t) {
  return CUBLAS_STATUS_SUCCESS;
}
CUBLASLT_ON_CPU_API size_t cublasLtGetVersion() {
  return CUBLAS_VERSION;
}
CUBLASLT_ON_CPU_API const char* cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS of the emulation";
}

CUBLASLT_ON_CPU_API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t,
                                                            cudaDataType_t) {
  *description = reinterpret_cast<cublasLtMatmulDesc_t>(new Description);
  return CUBLAS_STATUS_SUCCESS;
}
CUBLASLT_ON_CPU_API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete &as<Description>(description);
  return CUBLAS_STATUS_SUCCESS;
}
CUBLASLT_ON_CPU_API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                                                  cublasLtMatmulDescAttributes_t attribute,
                                                                  const void* value, size_t num_bytes) {
  auto& description = as<Description>(handle);
  const auto set = [&](auto& field) {
    if (num_bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, sizeof field);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(description.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(description.transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(description.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(description.bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(description.aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(description.aux_stride);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

CUBLASLT_ON_CPU_API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                                              uint64_t rows, uint64_t columns, int64_t stride) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, stride});
  return CUBLAS_STATUS_SUCCESS;
}
CUBLASLT_ON_CPU_API cublasStatus_t cublasLtMatrixLayoutDestroy(const cublasLtMatrixLayout_t layout) {
  delete &as<Layout>(layout);
  return CUBLAS_STATUS_SUCCESS;
}

CUBLASLT_ON_CPU_API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference{0, {256, 256, 256, 256}});
  return CUBLAS_STATUS_SUCCESS;
}
CUBLASLT_ON_CPU_API cublasStatus_t cublasLtMatmulPreferenceDestroy(const cublasLtMatmulPreference_t preference) {
  delete &as<Preference>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
CUBLASLT_ON_CPU_API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                                        cublasLtMatmulPreferenceAttributes_t attribute,
                                                                        const void* value, size_t num_bytes) {
  auto& preference = as<Preference>(handle);
  const auto set = [&](auto& field) {
    if (num_bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, sizeof field);
    return CUBLAS_STATUS_SUCCESS;
  };
  uint32_t unused;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(preference.workspace_bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(unused);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(preference.alignment[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(preference.alignment[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(preference.alignment[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(preference.alignment[3]);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

// An algorithm keeps the alignment and the workspace it was asked for with, which the product then checks.
CUBLASLT_ON_CPU_API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                                                  cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                                  cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                                                  cublasLtMatmulPreference_t preference, int num_wanted,
                                                                  cublasLtMatmulHeuristicResult_t results[],
                                                                  int* num_results) {
  *num_results = 0;
  if (num_wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_supported(as<Description>(description), as<Layout>(a), as<Layout>(b), as<Layout>(d)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  results[0] = {};
  std::memcpy(&results[0].algo, &as<Preference>(preference), sizeof(Preference));
  results[0].state = CUBLAS_STATUS_SUCCESS;
  results[0].workspaceSize = as<Preference>(preference).workspace_bytes;
  *num_results = 1;
  return CUBLAS_STATUS_SUCCESS;
}

CUBLASLT_ON_CPU_API cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha,
                                                  const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                                                  cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                                                  cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                                                  const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                                                  size_t workspace_bytes, cudaStream_t stream) {
  Preference asked;
  std::memcpy(&asked, algorithm, sizeof asked);
  const Product product{
      as<Description>(description),    as<Layout>(a_layout), as<Layout>(b_layout), as<Layout>(d_layout), a, b, d,
      *static_cast<const float*>(beta)};
  const void* const operands[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if (reinterpret_cast<uintptr_t>(operands[i]) % asked.alignment[i] != 0) return CUBLAS_STATUS_INVALID_VALUE;
  const bool fits = cuda_on_cpu::is_device_visible(a, product.a.num_bytes()) &&
                    cuda_on_cpu::is_device_visible(b, product.b.num_bytes()) &&
                    cuda_on_cpu::is_device_visible(d, product.d.num_bytes()) &&
                    cuda_on_cpu::is_device_visible(workspace, workspace_bytes);
  const bool is_valid = is_supported(product.description, product.a, product.b, product.d) && c == d &&
                        workspace_bytes >= asked.workspace_bytes && *static_cast<const float*>(alpha) == 1.0f &&
                        reinterpret_cast<uintptr_t>(workspace) % 16 == 0;
  const bool has_pointers = (!adds_bias(product.description.epilogue) || product.description.bias) &&
                            (!is_gelu(product.description.epilogue) || product.description.aux) &&
                            (product.description.epilogue != CUBLASLT_EPILOGUE_BGRADA || product.description.bias);
  if (!fits || !is_valid || !has_pointers) return CUBLAS_STATUS_INVALID_VALUE;
  cuda_on_cpu::enqueue(stream, [product, workspace, workspace_bytes] {
    std::memset(workspace, 0xFF, std::min<size_t>(workspace_bytes, 4096));
    product.run();
  });
  return CUBLAS_STATUS_SUCCESS;
}
