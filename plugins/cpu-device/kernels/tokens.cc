// Ids are data, so a wrong one fails the stream with a sentence and not the process by a wild read.
#include "cpu-device/kernels/tokens.h"

#include <string>

#include "tessera/device.h"
#include "tessera/error.hpp"

namespace tessera::cpu {

namespace {

void check_range(const int32_t* ids, uint64_t num_ids, int64_t least, uint64_t limit, const IdKind& kind) {
  for (uint64_t n = 0; n < num_ids; ++n)
    if (ids[n] < least || ids[n] >= static_cast<int64_t>(limit))
      throw Error(TSR_E_INVALID_ARGUMENT, std::string(kind.name) + " " + std::to_string(ids[n]) + " at position " +
                                              std::to_string(n) + " of the micro-batch is not in [0, " +
                                              std::to_string(limit) + "); the data does not fit the model's " +
                                              kind.set);
}

}  // namespace

void check_ids(const int32_t* ids, uint64_t num_ids, uint64_t limit, const IdKind& kind) {
  check_range(ids, num_ids, 0, limit, kind);
}

void check_targets(const int32_t* ids, uint64_t num_ids, uint64_t limit, const IdKind& kind) {
  check_range(ids, num_ids, TSR_NO_TARGET, limit, kind);
}

}  // namespace tessera::cpu
