// Before any work, all ranks compare what they must have in common.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/key_value_store.h"

namespace tessera {

/// One thing to compare: a plugin's fingerprint, a flag, the data's number of tokens.
struct Fingerprint {
  std::string name;   ///< "plugin ddp", "--lr", "tokens in the data"
  std::string value;  ///< any text; long ones are cut in errors
};

/// A collective of all ranks. Returns when all have equal lists. Else every rank throws the same FAILED_PRECONDITION,
/// which names the first field that differs, two ranks and their values. Throws DEADLINE with the ranks that are
/// missing after `timeout_ms`. `name` makes several agreements of one job different.
void require_agreement(KeyValueStore& store, int rank, int world_size, const std::string& name,
                       const std::vector<Fingerprint>& fingerprints, int64_t timeout_ms);

/// The variables of this process's environment that change a number library's speed or bits (OPENBLAS_*, OMP_*, GOMP_*,
/// MKL_*, DNNL_*, ONEDNN_*), as one fingerprint, sorted.
Fingerprint library_environment();

}  // namespace tessera
