// Warps: threads of a block that run together and exchange registers (__shfl_xor_sync). Included by .cu files only.
#pragma once

namespace tessera::cuda {

inline constexpr unsigned kWarpSize = 32;

}  // namespace tessera::cuda
