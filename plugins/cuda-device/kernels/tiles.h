// op.ranges in pieces, one for each block of threads.
#pragma once

#include <vector>

#include "tessera/device.h"

namespace tessera::cuda {

/// Elements [begin, end) of a home. `begin` is the first of its range or a multiple of 4, so that pieces of whole
/// vectors of 4 elements lie in one tile.
struct Tile {
  uint64_t begin, end;
  double weight_decay;
};
inline constexpr uint64_t kTileElements = 8192;

/// op.ranges cut into tiles of at most kTileElements. INVALID_ARGUMENT for a range beyond op.dims[ELEMENTS].
std::vector<Tile> tiles_of(const tsr_op& op);

}  // namespace tessera::cuda
