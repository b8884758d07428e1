// cuBLASLt rather than cuBLAS: it is asked for an algorithm before the run (find_algorithm) and given it at every
// launch, so nothing is chosen, measured or allocated in a step, and a machine always gets the same bits
// (docs/decisions/0017).
#include "cuda-device/libraries/cublaslt.h"

#include <array>

#include "cuda-device/context.h"
#include "tessera/error.hpp"

#define TESSERA_TEXT(x) #x
#define TESSERA_TEXT_OF(x) TESSERA_TEXT(x)

namespace tessera::cuda {
namespace {

constexpr char kLibrary[] = "libcublasLt.so." TESSERA_TEXT_OF(CUBLAS_VER_MAJOR);
constexpr int kMaxAlgorithms = 8;

template <class F>
void find(const CudaLibrary& library, const char* name, F* function) {
  *function = library.function<F>(name);
}

}  // namespace

CublasLtFunctions::CublasLtFunctions(const CudaLibrary& library) {
  find(library, "cublasLtCreate", &create);
  find(library, "cublasLtDestroy", &destroy);
  find(library, "cublasLtGetVersion", &version);
  find(library, "cublasLtGetStatusName", &status_name);
  find(library, "cublasLtMatmulDescCreate", &matmul_desc_create);
  find(library, "cublasLtMatmulDescDestroy", &matmul_desc_destroy);
  find(library, "cublasLtMatmulDescSetAttribute", &matmul_desc_set);
  find(library, "cublasLtMatrixLayoutCreate", &matrix_layout_create);
  find(library, "cublasLtMatrixLayoutDestroy", &matrix_layout_destroy);
  find(library, "cublasLtMatmulPreferenceCreate", &preference_create);
  find(library, "cublasLtMatmulPreferenceDestroy", &preference_destroy);
  find(library, "cublasLtMatmulPreferenceSetAttribute", &preference_set);
  find(library, "cublasLtMatmulAlgoGetHeuristic", &heuristic);
  find(library, "cublasLtMatmul", &matmul);
}

CublasLt::CublasLt() : library_(kLibrary), call_(library_), handle_(nullptr, call_.destroy) {
  cublasLtHandle_t handle = nullptr;
  check(call_.create(&handle), "cublasLtCreate");
  handle_.reset(handle);
}

MatmulDescription CublasLt::make_description(cublasComputeType_t compute) const {
  cublasLtMatmulDesc_t description = nullptr;
  check(call_.matmul_desc_create(&description, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
  return {description, call_.matmul_desc_destroy};
}

MatrixLayout CublasLt::make_layout(cudaDataType type, uint64_t rows, uint64_t columns, uint64_t stride) const {
  cublasLtMatrixLayout_t layout = nullptr;
  check(call_.matrix_layout_create(&layout, type, rows, columns, static_cast<int64_t>(stride)),
        "cublasLtMatrixLayoutCreate");
  return {layout, call_.matrix_layout_destroy};
}

MatmulPreference CublasLt::make_preference() const {
  cublasLtMatmulPreference_t preference = nullptr;
  check(call_.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  return {preference, call_.preference_destroy};
}

// The library returns NOT_SUPPORTED or INVALID_VALUE, depending on its version, for a product that it lacks.
bool CublasLt::find_algorithm(const MatmulDescription& description, const MatmulLayouts& layouts,
                              const MatmulPreference& preference, cublasLtMatmulAlgo_t* algorithm) const {
  std::array<cublasLtMatmulHeuristicResult_t, kMaxAlgorithms> results{};
  int num_results = 0;
  const cublasStatus_t status =
      call_.heuristic(handle_.get(), description.get(), layouts.a.get(), layouts.b.get(), layouts.out.get(),
                      layouts.out.get(), preference.get(), kMaxAlgorithms, results.data(), &num_results);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return false;
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  for (int i = 0; i < num_results; ++i)
    if (const auto& result = results[static_cast<size_t>(i)]; result.state == CUBLAS_STATUS_SUCCESS) {
      *algorithm = result.algo;
      return true;
    }
  return false;
}

void CublasLt::matmul(const MatmulDescription& description, const MatmulLayouts& layouts,
                      const cublasLtMatmulAlgo_t& algorithm, const void* a, const void* b, float beta, void* out,
                      void* workspace, size_t workspace_bytes, cudaStream_t stream) const {
  const float alpha = 1.0f;
  check(call_.matmul(handle_.get(), description.get(), &alpha, a, layouts.a.get(), b, layouts.b.get(), &beta, out,
                     layouts.out.get(), out, layouts.out.get(), &algorithm, workspace, workspace_bytes, stream),
        "cublasLtMatmul");
}

std::string CublasLt::name() const {
  return library_.name() + " (version " + std::to_string(call_.version()) + ")";
}

void CublasLt::check(cublasStatus_t status, const char* call) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(status == CUBLAS_STATUS_ALLOC_FAILED ? TSR_E_RESOURCE_EXHAUSTED : TSR_E_INTERNAL,
              std::string(call) + " of " + name() + " failed: " + call_.status_name(status));
}

// Made at first use and not in the constructor: a library that is not there is missed only by ops that need it.
CublasLt& Context::cublaslt() {
  if (!cublaslt_) {
    make_current();
    cublaslt_ = std::make_unique<CublasLt>();
  }
  return *cublaslt_;
}

}  // namespace tessera::cuda
