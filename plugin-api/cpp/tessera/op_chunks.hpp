// SPDX-License-Identifier: Apache-2.0
// For authors of devices: op.ranges of the optimizer and of the sum of squares, in pieces that threads share out. One
// home may be a single range of millions of elements and another hundreds of small ones. Chunks are cut from the op
// alone, so which thread takes one changes no result.
#pragma once

#include <algorithm>
#include <vector>

#include "tessera/operands.hpp"

namespace tessera::op {

/// Elements [begin, end) of a home.
struct Chunk {
  uint64_t begin, end;
  double weight_decay, lr_scale;
};

/// op.ranges cut into chunks of at most `chunk_elements`, a multiple of `granule`. A chunk begins with its range or at
/// a multiple of `granule` elements of the home: so groups of `granule` elements lie in one chunk, wherever a range
/// begins. Throws INVALID_ARGUMENT for a range beyond op.dims[ELEMENTS].
inline std::vector<Chunk> chunks_of(const tsr_op& op, uint64_t chunk_elements, uint64_t granule = 1) {
  const uint64_t num_elements = op::num_elements(op);
  std::vector<Chunk> chunks;
  for (uint64_t i = 0; i < op.num_ranges; ++i) {
    const tsr_op_range& range = op.ranges[i];
    if (range.offset > num_elements || range.num_elements > num_elements - range.offset)
      throw Error(TSR_E_INVALID_ARGUMENT, "prepare: range " + std::to_string(range.offset) + ":" +
                                              std::to_string(range.num_elements) + " is beyond the operand's " +
                                              std::to_string(num_elements) + " elements");
    const uint64_t end = range.offset + range.num_elements;
    for (uint64_t begin = range.offset, next; begin < end; begin = next) {
      next = std::min(begin / granule * granule + chunk_elements, end);
      chunks.push_back({begin, next, range.weight_decay, range.lr_scale});
    }
  }
  return chunks;
}

}  // namespace tessera::op
