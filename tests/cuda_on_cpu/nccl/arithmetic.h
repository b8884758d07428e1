// What NCCL computes, element by element.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace nccl_on_cpu {

size_t bytes_of(ncclDataType_t dtype);

/// recv[0:n] = the reduction of all operands' [0:n], from `first` on around the ring, rounded to `dtype` after every
/// step, as a ring does: other bits than a tree's. ncclAvg multiplies each operand by 1/operands before.
void reduce(ncclDataType_t dtype, ncclRedOp_t op, const std::vector<const void*>& operands, size_t first, size_t n,
            void* recv);

}  // namespace nccl_on_cpu
