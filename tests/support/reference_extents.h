// Slots and extents as the float64 reference names them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/device.h"

namespace tessera::testing {

inline constexpr uint32_t kP0 = TSR_SLOT(TSR_ROLE_PARAMETER, 0), kP1 = kP0 + 1, kP2 = kP0 + 2;
inline constexpr uint32_t kG0 = TSR_SLOT(TSR_ROLE_GRADIENT, 0), kG1 = kG0 + 1, kG2 = kG0 + 2;
inline constexpr uint32_t kI0 = TSR_SLOT(TSR_ROLE_INPUT, 0), kI1 = kI0 + 1, kI2 = kI0 + 2, kI3 = kI0 + 3, kI4 = kI0 + 4;
inline constexpr uint32_t kO0 = TSR_SLOT(TSR_ROLE_OUTPUT, 0), kO1 = kO0 + 1;
inline constexpr uint32_t kDi0 = TSR_SLOT(TSR_ROLE_INPUT_GRADIENT, 0), kDi1 = kDi0 + 1;
inline constexpr uint32_t kDo0 = TSR_SLOT(TSR_ROLE_OUTPUT_GRADIENT, 0), kDo1 = kDo0 + 1;
inline constexpr uint32_t kS0 = TSR_SLOT(TSR_ROLE_SAVED, 0), kS1 = kS0 + 1;
inline constexpr uint32_t kLossSum = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_LOSS);
inline constexpr uint32_t kCorrect = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_CORRECT);

/// Extents of an op; 0 where it has no such dim.
struct Extents {
  explicit Extents(const tsr_op& op)
      : B(at(op, TSR_DIM_BATCH)),
        T(at(op, TSR_DIM_SEQ)),
        N(B * T),
        H(at(op, TSR_DIM_HEADS)),
        D(at(op, TSR_DIM_HEAD_DIM)),
        C(at(op, TSR_DIM_EMBED)),
        I(at(op, TSR_DIM_IN)),
        O(at(op, TSR_DIM_OUT)),
        V(at(op, TSR_DIM_VOCAB)),
        P(at(op, TSR_DIM_POSITIONS)),
        L(at(op, TSR_DIM_CLASSES)),
        vocab_begin(static_cast<int64_t>(op.attributes[TSR_ATTR_VOCAB_BEGIN])),
        vocab_count(static_cast<int64_t>(op.attributes[TSR_ATTR_VOCAB_COUNT])),
        row_begin(static_cast<size_t>(op.attributes[TSR_ATTR_ROW_BEGIN])),
        row_period(static_cast<size_t>(op.attributes[TSR_ATTR_ROW_PERIOD])) {}

  /// Whether the table has a row for `token`, and which.
  bool has_row(int32_t token) const { return token >= vocab_begin && token < vocab_begin + vocab_count; }
  size_t row_of(int32_t token) const { return static_cast<size_t>(token - vocab_begin); }

  /// Of row n in its sequence.
  size_t position(size_t n) const { return (row_begin + n) % (row_period > 0 ? row_period : T); }

  size_t B, T, N, H, D, C, I, O, V, P, L;
  int64_t vocab_begin, vocab_count;
  size_t row_begin, row_period;

 private:
  static size_t at(const tsr_op& op, int dim) { return static_cast<size_t>(op.dims[dim]); }
};

}  // namespace tessera::testing
