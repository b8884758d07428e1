// The loops of the optimizers, for every instruction set. Element i depends on element i of the operands only.
#pragma once

#include <cstddef>

#include "cpu-device/kernels/simd.h"
#include "tessera/step_scalars.hpp"

namespace tessera::cpu {

// Operands do not overlap.
TESSERA_SIMD_DECLARE(
    /// As AdamWFactors says.
    void adamw(float* value, const float* gradient, float* m, float* v, size_t num_elements, const AdamWFactors& f);
    /// As SgdFactors says.
    void sgd(float* value, const float* gradient, float* m, size_t num_elements, const SgdFactors& f);)

}  // namespace tessera::cpu
