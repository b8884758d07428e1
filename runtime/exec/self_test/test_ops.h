// The ops of the self-test of a device.
#pragma once

#include "exec/self_test/tested_device.h"

namespace tessera::host {

/// Elementwise ops, one of a segment, and those of a step: what the device does not have is left out.
void test_ops(TestedDevice& tested);

}  // namespace tessera::host
