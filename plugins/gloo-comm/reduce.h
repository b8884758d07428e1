// Sums over ranks, canonical ones.
#pragma once

#include "gloo-comm/operation.h"

namespace tessera::gloo_comm {

/// ALL_REDUCE, REDUCE_SCATTER and REDUCE, as canonical sums: the owner of a slice receives it from all ranks, piece by
/// piece, and reduces the operands in the order of the tree while the next pieces arrive. ALL_REDUCE sends each reduced
/// piece on to everybody. Bytes sent by a rank of n: REDUCE_SCATTER (n-1)/n of all, ALL_REDUCE twice that. Short data
/// goes inside the headers, to everybody at once.
void reduce_slices(Operation& operation);

/// Bytes of workspace that reduce_slices needs among num_ranks ranks, for slices of `total_bytes` together, of which
/// the largest has `largest_slice` bytes.
uint64_t reduce_workspace(uint32_t kind, uint64_t total_bytes, uint64_t largest_slice, int num_ranks);

}  // namespace tessera::gloo_comm
