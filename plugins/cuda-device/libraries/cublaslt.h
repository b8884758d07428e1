// cuBLASLt, found when it is first used, and its objects with their owners.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "tessera/cuda_library.hpp"

namespace tessera::cuda {

/// An object of the library, destroyed by the library's own function.
template <class Handle>
using CublasLtObject = std::unique_ptr<std::remove_pointer_t<Handle>, cublasStatus_t (*)(Handle)>;
using MatmulDescription = CublasLtObject<cublasLtMatmulDesc_t>;
using MatrixLayout = CublasLtObject<cublasLtMatrixLayout_t>;
using MatmulPreference = CublasLtObject<cublasLtMatmulPreference_t>;

/// What a product works on, as column-major matrices: out = a b.
struct MatmulLayouts {
  MatrixLayout a, b, out;
};

/// The functions of the library that we call, by their names without the prefix.
struct CublasLtFunctions {
  /// Throws UNAVAILABLE when the library lacks one.
  explicit CublasLtFunctions(const CudaLibrary& library);

  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusName) status_name;
  decltype(&cublasLtMatmulDescCreate) matmul_desc_create;
  decltype(&cublasLtMatmulDescDestroy) matmul_desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) matmul_desc_set;
  decltype(&cublasLtMatrixLayoutCreate) matrix_layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) matrix_layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmul) matmul;
};

/// A handle on the device that was current when it was made. Errors of calls are thrown as INTERNAL with the call's
/// name. [control-thread], but for matmul and set on descriptions: [issue-thread] too.
class CublasLt {
 public:
  /// Throws UNAVAILABLE, with the places that were searched, when the library is not there.
  CublasLt();

  /// Products with `compute`'s precision; alpha and beta are float32 in host memory.
  MatmulDescription make_description(cublasComputeType_t compute) const;
  /// A column-major matrix: element (i, j) is at i + j * stride.
  MatrixLayout make_layout(cudaDataType type, uint64_t rows, uint64_t columns, uint64_t stride) const;
  MatmulPreference make_preference() const;

  template <class Value>
  void set(const MatmulDescription& description, cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
    check(call_.matmul_desc_set(description.get(), attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  }
  template <class Value>
  void set(const MatmulPreference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
           const Value& value) const {
    check(call_.preference_set(preference.get(), attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  }

  /// Fills *algorithm with the library's first choice, or returns false: it has none.
  bool find_algorithm(const MatmulDescription& description, const MatmulLayouts& layouts,
                      const MatmulPreference& preference, cublasLtMatmulAlgo_t* algorithm) const;
  /// out = a b + beta out. The workspace is 16-byte aligned.
  void matmul(const MatmulDescription& description, const MatmulLayouts& layouts, const cublasLtMatmulAlgo_t& algorithm,
              const void* a, const void* b, float beta, void* out, void* workspace, size_t workspace_bytes,
              cudaStream_t stream) const;

  /// "libcublasLt.so.13 (version 130100)", for messages.
  std::string name() const;

 private:
  void check(cublasStatus_t status, const char* call) const;

  const CudaLibrary library_;
  const CublasLtFunctions call_;
  CublasLtObject<cublasLtHandle_t> handle_;
};

}  // namespace tessera::cuda
