// Asks a device for results that are known, before a rank runs, text is generated or rates are measured: with one that
// does nothing and says OK all of them would go on over garbage.
#pragma once

#include "exec/device.h"

namespace tessera::host {

/// A handful of ops on one stream, whose results another one reads: copies, fills, host functions, an event, a graph
/// and a semaphore where it has them, and those of the kernels that the device describes. Throws INTERNAL, naming the
/// plugin and the op. [control-thread]
void test_device(const Device& device, int64_t timeout_ms);

}  // namespace tessera::host
