// The ABI edge of cuda-device: NVIDIA GPUs from compute capability 8.0 on. It loads on machines without a GPU, so that
// a plan for one can be made anywhere; what it needs of CUDA is opened by the first rank that trains.
#include "cuda-device/device.h"
#include "tessera/device_table.hpp"
#include "tessera/plugin.hpp"

namespace {

constexpr tsr_option kOptions[] = {
    tessera::bool_option(tessera::cuda::kShareOption, "false",
                         "ranks may share a GPU: local rank r computes on GPU r modulo their number; else every local "
                         "rank needs a GPU of its own"),
    tessera::bool_option(tessera::cuda::kTf32Option, "false",
                         "products of float32 matrices are in TF32: faster, with 10 bits of the factors' 23"),
    tessera::bool_option(tessera::cuda::kDeterministicOption, "true",
                         "the same bits in every run; false lets attention in 16 bits add in any order, which is "
                         "faster"),
    tessera::string_option(tessera::cuda::kAttentionOption, "auto", "auto|cudnn|plain",
                           "attention in 16 bits: by cuDNN where it can and by our slower kernels elsewhere; by cuDNN "
                           "or not at all; by our kernels"),
    tessera::int_option(tessera::cuda::kDebugPartBytesOption, tessera::cuda::kDefaultPartBytes, 1,
                        tessera::cuda::kMaxPartBytes,
                        "for tests: the head's logits, and the backward of cuDNN's attention, are computed in parts of "
                        "at most this many bytes"),
};

constexpr tsr_descriptor kDescriptor = tessera::descriptor(
    "cuda", TSR_KIND_DEVICE, "org.tessera.cuda-device", "0.12.0",
    "computes on NVIDIA GPUs: matrix products are cuBLASLt's, attention is cuDNN's", kOptions, "Tessera");

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_DEVICE_INTERFACE, tessera::kDeviceInterface<tessera::cuda::Plugin>)
