// How fast a checkpoint's files are written and read.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::host {

struct CheckpointFileRates {
  double written_bytes_per_second = 0;  ///< until the file is durable
  double read_bytes_per_second = 0;     ///< bypassing the page cache where the file system allows it
};

/// Writes a file of `num_bytes` in the folder as a save does, reads it as a resumed run does, and removes it. Throws
/// UNAVAILABLE with the system's reason.
CheckpointFileRates measure_checkpoint_file(const std::string& folder, uint64_t num_bytes);

}  // namespace tessera::host
