// Where a part of a rank's state is.
#pragma once

#include <cstdint>

namespace tessera::host {

/// Elements of a buffer, in whatever memory it is.
struct StatePlace {
  uint64_t buffer = 0, offset = 0, num_elements = 0;
};

}  // namespace tessera::host
