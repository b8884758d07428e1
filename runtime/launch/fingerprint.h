// Ranks compare what they must have in common, before any work.
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

/// A collective of all ranks. Returns when all have equal lists; else every rank throws the same FAILED_PRECONDITION,
/// which names the first field that differs, two ranks and their values. Throws DEADLINE after `timeout_ms`, naming the
/// ranks that are missing, and ABORTED with the reason when the job has failed. `purpose` completes "waiting for rank 3
/// to ..." ("compare their settings") and must be unique within the job. Rank 0 logs which ranks it waits for.
void require_equal_fingerprints(KeyValueStore& store, int rank, int world_size, const std::string& purpose,
                                const std::vector<Fingerprint>& fingerprints, int64_t timeout_ms, const Log& log);

/// The ranks that have not set the key "<prefix><rank>".
std::vector<int> missing_ranks(KeyValueStore& store, const std::string& prefix, int world_size);
/// A DEADLINE error about the first of those ranks: "timed out after 5000 ms waiting for ranks 1, 3 to <purpose>". The
/// last of them may have come since the time was over: then `ranks` is empty, and none is named.
Error late_error(std::span<const int> ranks, const std::string& purpose, int64_t timeout_ms);

/// The environment variables that change the speed or the bits of numeric libraries (OPENBLAS_*, OMP_*, GOMP_*, MKL_*,
/// DNNL_*, ONEDNN_*), sorted, as one fingerprint.
Fingerprint library_environment();

}  // namespace tessera::host
