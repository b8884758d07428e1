// The ops with a bfloat16 kernel of their own: those that are mostly products with weights. Their operands are
// multiplied in bfloat16 (product.h), not widened to float32 as a whole (mixed_precision.h).
#pragma once

#include "cpu-device/kernel.h"

namespace tessera::cpu {

extern const OpImpl kBf16Linear, kBf16Loss, kBf16HeadLogits;

}  // namespace tessera::cpu
