// Before any work, all ranks compare what they must have in common.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "launch/key_value_store.h"
#include "tessera/error.hpp"

namespace tessera::host {

/// One thing to compare: a plugin's fingerprint, a flag, the data's number of tokens.
struct Fingerprint {
  std::string name;   ///< "plugin ddp", "--lr", "tokens in the data"
  std::string value;  ///< any text; long ones are cut in errors
};

/// A collective of all ranks. Returns when all have equal lists. Else every rank throws the same FAILED_PRECONDITION,
/// which names the first field that differs, two ranks and their values. Throws DEADLINE about a rank that is missing,
/// with all that are, after `timeout_ms`; ABORTED with the reason when the job has failed. `purpose` is what the ranks
/// do before they come, "compare their settings"; it makes several agreements of one job different. Rank 0 logs for
/// whom it waits.
void require_equal_fingerprints(KeyValueStore& store, int rank, int world_size, const std::string& purpose,
                                const std::vector<Fingerprint>& fingerprints, int64_t timeout_ms, const Log& log);

/// The ranks that have not set the key "<prefix><rank>".
std::vector<int> missing_ranks(KeyValueStore& store, const std::string& prefix, int world_size);
/// DEADLINE about the first of those ranks: "timed out after 5000 ms waiting for ranks 1, 3 to <purpose>".
Error late_error(std::span<const int> ranks, const std::string& purpose, int64_t timeout_ms);

/// The variables of this process's environment that change a number library's speed or bits (OPENBLAS_*, OMP_*, GOMP_*,
/// MKL_*, DNNL_*, ONEDNN_*), as one fingerprint, sorted.
Fingerprint library_environment();

}  // namespace tessera::host
