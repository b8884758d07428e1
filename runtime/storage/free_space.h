// Whether the folders of --offload-dir have room for all ranks of a machine together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera::host {

/// What one rank keeps in files.
struct SpaceNeed {
  std::vector<std::string> folders;
  uint64_t num_bytes = 0;  ///< over all of them, in stripes
};

/// What is wrong, for the first file system that has less free space than these ranks need there together; empty when
/// each has enough. A folder that cannot be looked at, or whose file system does not tell, is left to the rank that
/// makes its file there.
std::string missing_space(std::span<const SpaceNeed> ranks);

}  // namespace tessera::host
