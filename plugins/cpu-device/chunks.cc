// The optimizer and the sum of squares work on chunks and not on ranges, since one home may be a single range of
// millions of elements and another hundreds of small ones. Chunks are cut from the op alone, so which thread does one
// changes nothing: each element is updated alone, and the accumulators of the threads are exact.
#include "cpu-device/chunks.h"

#include <algorithm>
#include <string>

#include "tessera/error.hpp"
#include "tessera/operands.hpp"

namespace tessera::cpu {

std::vector<tsr_op_range> chunks_of(const tsr_op& op) {
  const uint64_t num_elements = op::num_elements(op);
  std::vector<tsr_op_range> chunks;
  for (uint64_t i = 0; i < op.num_ranges; ++i) {
    const tsr_op_range& range = op.ranges[i];
    if (range.offset > num_elements || range.num_elements > num_elements - range.offset)
      throw Error(TSR_E_INVALID_ARGUMENT, "prepare: range " + std::to_string(range.offset) + ":" +
                                              std::to_string(range.num_elements) + " is beyond the operand's " +
                                              std::to_string(num_elements) + " elements");
    for (uint64_t done = 0; done < range.num_elements; done += kChunkElements)
      chunks.push_back({range.offset + done, std::min(kChunkElements, range.num_elements - done), range.weight_decay});
  }
  return chunks;
}

}  // namespace tessera::cpu
