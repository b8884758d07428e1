// Tiles are cut at multiples of 4 elements from the start of the home, not of the range: so that the vectors of a tile
// are aligned in every operand, wherever its range begins. The table goes to the GPU once, in prepare.
#include "cuda-device/kernels/tiles.h"

#include <algorithm>
#include <string>

#include "tessera/error.hpp"

namespace tessera::cuda {

std::vector<Tile> tiles_of(const tsr_op& op) {
  const auto num_elements = static_cast<uint64_t>(op.dims[TSR_DIM_ELEMENTS]);
  std::vector<Tile> tiles;
  for (uint64_t i = 0; i < op.num_ranges; ++i) {
    const tsr_op_range& range = op.ranges[i];
    if (range.offset > num_elements || range.num_elements > num_elements - range.offset)
      throw Error(TSR_E_INVALID_ARGUMENT, "prepare: range " + std::to_string(range.offset) + ":" +
                                              std::to_string(range.num_elements) + " is beyond the operand's " +
                                              std::to_string(num_elements) + " elements");
    const uint64_t end = range.offset + range.num_elements;
    for (uint64_t begin = range.offset, next; begin < end; begin = next) {
      next = std::min(begin / 4 * 4 + kTileElements, end);
      tiles.push_back({begin, next, range.weight_decay});
    }
  }
  return tiles;
}

}  // namespace tessera::cuda
