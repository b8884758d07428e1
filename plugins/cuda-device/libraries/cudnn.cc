// When cuDNN is looked for: once for a device, by the first attention op in 16 bits. Not finding it is a warning with
// --cuda.attention=auto and an error with =cudnn, so that training on the slow kernels is always announced.
#include "cuda-device/libraries/cudnn.h"

#include "cuda-device/context.h"

namespace tessera::cuda {

Cudnn* Context::cudnn() {
  if (searched_cudnn_) return cudnn_.get();
  searched_cudnn_ = true;
  make_current();
  try {
    cudnn_ = open_cudnn(compute_capability(), options_.is_deterministic, options_.part_bytes);
  } catch (const Error& error) {
    if (options_.attention == AttentionChoice::cudnn) throw;
    warn_once("attention runs on plain kernels, which are slow in 16 bits: " + std::string(error.what()));
  }
  return cudnn_.get();
}

}  // namespace tessera::cuda
