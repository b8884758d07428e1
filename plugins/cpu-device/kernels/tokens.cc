// Ids are data, so a wrong one fails the stream with a sentence and not the process by a wild read.
#include "cpu-device/kernels/tokens.h"

#include <string>

#include "tessera/error.hpp"

namespace tessera::cpu {

void check_ids(const int32_t* ids, uint64_t num_ids, uint64_t limit, const IdKind& kind) {
  for (uint64_t n = 0; n < num_ids; ++n)
    if (ids[n] < 0 || static_cast<uint64_t>(ids[n]) >= limit)
      throw Error(TSR_E_INVALID_ARGUMENT, std::string(kind.name) + " " + std::to_string(ids[n]) + " at position " +
                                              std::to_string(n) + " of the micro-batch is not in [0, " +
                                              std::to_string(limit) + "); the data does not fit the model's " +
                                              kind.set);
}

}  // namespace tessera::cpu
