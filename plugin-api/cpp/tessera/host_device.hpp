// TESSERA_HOST_DEVICE marks functions that a GPU's kernels call too, so that devices agree to the bit.
#pragma once

#ifdef __CUDACC__
#define TESSERA_HOST_DEVICE __host__ __device__
#else
#define TESSERA_HOST_DEVICE
#endif
