// Takes the place of cudnn_attention.cc in a build without cuDNN's front end.
#include "cuda-device/libraries/cudnn.h"

namespace tessera::cuda {

std::unique_ptr<Cudnn> open_cudnn(int, bool, int64_t) {
  throw Error(TSR_E_UNAVAILABLE,
              "cuda-device was built without cuDNN's front end; build it with ./dev on a machine with network, or set "
              "TESSERA_CUDNN_FRONTEND");
}

}  // namespace tessera::cuda
