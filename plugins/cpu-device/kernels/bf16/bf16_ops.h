// The ops that have a kernel of their own for bfloat16: those that are mostly products of weights. Their operands are
// multiplied as they are (product.h), instead of being widened as a whole (mixed_precision.h).
#pragma once

#include "cpu-device/kernel.h"

namespace tessera::cpu {

extern const OpImpl kBf16Linear, kBf16Loss, kBf16HeadLogits;

}  // namespace tessera::cpu
