// sgemm and not dnnl_matmul: see matmul.h. The team is OpenMP's, of whatever thread calls; inside a parallel region it
// is this thread alone.
#include "cpu-device/kernels/matmul.h"

#include <dnnl.h>
#include <omp.h>

#include <string>

#include "tessera/error.hpp"

namespace tessera::cpu {

void matmul(ProductExtents extents, ConstMatrix a, ConstMatrix b, Matrix c, bool accumulate, int num_threads) {
  // The library asks OpenMP for the size of its team. The setting is this thread's own.
  if (omp_get_max_threads() != num_threads) omp_set_num_threads(num_threads);
  const auto dim = [](uint64_t extent) { return static_cast<dnnl_dim_t>(extent); };
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', dim(extents.m), dim(extents.n), dim(extents.k),
                 1.0f, a.data, dim(a.stride), b.data, dim(b.stride), accumulate ? 1.0f : 0.0f, c.data, dim(c.stride));
  if (status != dnnl_success)
    throw Error(TSR_E_INTERNAL, "oneDNN's product of " + std::to_string(extents.m) + " x " + std::to_string(extents.k) +
                                    " by " + std::to_string(extents.k) + " x " + std::to_string(extents.n) +
                                    " failed with status " + std::to_string(status));
}

}  // namespace tessera::cpu
