// Canonical reductions over ranks (tessera/canonical_sum.hpp).
#pragma once

#include "gloo-comm/collectives/operation.h"

namespace tessera::gloo_comm {

/// ALL_REDUCE, REDUCE_SCATTER and REDUCE, as canonical reductions: the owner of a slice receives it from all ranks,
/// chunk by chunk, and reduces the operands in the order of the tree while the next chunks arrive. ALL_REDUCE sends
/// each reduced chunk to all ranks. Bytes sent by a rank of n: REDUCE_SCATTER (n-1)/n of the data, ALL_REDUCE twice
/// that. Short data goes inside the headers, to all ranks at once.
void reduce_slices(Operation& operation);

/// Bytes of workspace that reduce_slices needs with `num_ranks` ranks, for slices of `total_bytes` in all, the largest
/// of which has `largest_slice` bytes.
uint64_t reduce_workspace(uint32_t kind, uint64_t total_bytes, uint64_t largest_slice, int num_ranks);

}  // namespace tessera::gloo_comm
