// How fast memory is read and written.
#pragma once

#include <cstdint>

#include "exec/device.h"

namespace tessera::host {

/// Bytes that copies within the device's memory read and write in a second, both counted: the median of several copies
/// of `num_bytes`. [control-thread]
double measure_memory(const Device& device, uint64_t num_bytes);

}  // namespace tessera::host
