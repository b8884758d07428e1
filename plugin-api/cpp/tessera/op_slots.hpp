// For authors of devices: the slots of every op of tessera/device.h, as docs/plugin-abi.md lists them, without what is
// a device's own: workspaces and contexts.
//
// A device's describe() starts from these lists and appends its scratch, so that two devices differ in nothing else,
// and a program planned for one has the same buffers on the other. The host allocates what is listed here and nothing
// more: a slot that a backward half does not list is a buffer whose life ends earlier, so each half lists only what it
// reads. The order within a list is that of the table in docs/plugin-abi.md.
#pragma once

#include <cmath>

#include "tessera/operands.hpp"

namespace tessera::op {

/// A table whose first `count` rows are those of the tokens from `begin` on, of `total` tokens; the rest is padding.
struct VocabularyPart {
  /// From the op's VOCAB_* attributes. Throws INVALID_ARGUMENT unless they are whole numbers, the rows of the tokens
  /// fit the table, and the tokens the vocabulary.
  explicit VocabularyPart(const tsr_op& op) {
    const uint64_t num_rows = extent(op, TSR_DIM_VOCAB);
    const double first = op.attributes[TSR_ATTR_VOCAB_BEGIN], num_local = op.attributes[TSR_ATTR_VOCAB_COUNT];
    const double num_tokens = op.attributes[TSR_ATTR_VOCAB_TOTAL];
    const auto is_count = [](double value) { return value >= 0 && value <= 0x1p31 && value == std::floor(value); };
    if (!is_count(first) || !is_count(num_local) || !is_count(num_tokens) || num_tokens == 0 ||
        num_local > static_cast<double>(num_rows) || (num_local > 0 && first + num_local > num_tokens))
      throw Error(TSR_E_INVALID_ARGUMENT,
                  "op " + op_name(op.kind) + " has VOCAB_BEGIN " + std::to_string(first) + ", VOCAB_COUNT " +
                      std::to_string(num_local) + " and VOCAB_TOTAL " + std::to_string(num_tokens) +
                      " for a table of " + std::to_string(num_rows) +
                      " rows; they must be whole, the count at most the rows, and the tokens within the total");
    begin = static_cast<int64_t>(first);
    count = static_cast<int64_t>(num_local);
    total = static_cast<int64_t>(num_tokens);
  }

  /// The row of `token`, or -1 if it is not in this part.
  int64_t row_of(int32_t token) const {
    const int64_t row = int64_t{token} - begin;
    return row >= 0 && row < count ? row : -1;
  }

  int64_t begin, count, total;
};

/// The rows of the position table: row n of the op is at position (begin + n) mod period.
struct PositionRows {
  /// Throws INVALID_ARGUMENT when the table is shorter than a sequence.
  explicit PositionRows(const tsr_op& op) {
    const auto row_period = static_cast<uint64_t>(op.attributes[TSR_ATTR_ROW_PERIOD]);
    period = row_period > 0 ? row_period : extent(op, TSR_DIM_SEQ);
    if (extent(op, TSR_DIM_POSITIONS) < period)
      throw Error(TSR_E_INVALID_ARGUMENT, "a sequence of " + std::to_string(period) + " tokens does not fit " +
                                              std::to_string(op.dims[TSR_DIM_POSITIONS]) +
                                              " positions; lower --seq-len");
    begin = static_cast<uint64_t>(op.attributes[TSR_ATTR_ROW_BEGIN]) % period;
  }

  uint64_t begin, period;
};

/// Slots of segments' ops: values and parameters in the op's dtype, gradients of parameters and statistics in float32.
/// Gradients that are written are optional: nobody may need them.
struct SegmentSlots {
  const tsr_op& op;

  tsr_slot_spec parameter(uint32_t index, uint64_t n) const {
    return slot_of(TSR_ROLE_PARAMETER, index, TSR_MODE_READ, n, op.dtype);
  }
  tsr_slot_spec gradient(uint32_t index, uint64_t n) const {
    return slot_of(TSR_ROLE_GRADIENT, index, TSR_MODE_ADD, n, TSR_F32, TSR_SLOT_OPTIONAL);
  }
  tsr_slot_spec input(uint32_t index, uint64_t n) const { return input(index, n, op.dtype); }
  tsr_slot_spec input(uint32_t index, uint64_t n, tsr_dtype dtype) const {
    return slot_of(TSR_ROLE_INPUT, index, TSR_MODE_READ, n, dtype);
  }
  tsr_slot_spec output(uint32_t index, uint64_t n, uint32_t flags = 0) const {
    return slot_of(TSR_ROLE_OUTPUT, index, TSR_MODE_WRITE, n, op.dtype, flags);
  }
  tsr_slot_spec kept_output(uint32_t index, uint64_t n) const {
    return slot_of(TSR_ROLE_OUTPUT, index, TSR_MODE_READ, n, op.dtype);
  }
  tsr_slot_spec input_gradient(uint32_t index, uint64_t n) const {
    return slot_of(TSR_ROLE_INPUT_GRADIENT, index, TSR_MODE_ADD, n, op.dtype, TSR_SLOT_OPTIONAL);
  }
  tsr_slot_spec output_gradient(uint32_t index, uint64_t n) const { return output_gradient(index, n, op.dtype); }
  tsr_slot_spec output_gradient(uint32_t index, uint64_t n, tsr_dtype dtype) const {
    return slot_of(TSR_ROLE_OUTPUT_GRADIENT, index, TSR_MODE_READ, n, dtype);
  }
  tsr_slot_spec saved(uint32_t index, uint64_t n, tsr_dtype dtype = TSR_F32) const {
    return slot_of(TSR_ROLE_SAVED, index, TSR_MODE_WRITE, n, dtype, TSR_SLOT_OPTIONAL);
  }
  tsr_slot_spec kept_saved(uint32_t index, uint64_t n, tsr_dtype dtype = TSR_F32) const {
    return slot_of(TSR_ROLE_SAVED, index, TSR_MODE_READ, n, dtype);
  }
  tsr_slot_spec loss() const {
    return slot_of(TSR_ROLE_SCALAR, TSR_SCALAR_LOSS, TSR_MODE_ADD, TSR_ACCUMULATOR_LIMBS, TSR_I64);
  }
  tsr_slot_spec loss_scale() const {
    return slot_of(TSR_ROLE_SCALAR, TSR_SCALAR_LOSS_SCALE, TSR_MODE_READ, 1, TSR_F64, TSR_SLOT_OPTIONAL);
  }
};

// ---- the ops ----------------------------------------------------------------------------------------------------
// Each list throws UNSUPPORTED for a phase the op does not have and INVALID_ARGUMENT for extents it cannot have. An
// empty list means that this half of a backward has nothing to do; split_backward then leaves it out.

/// Throws UNSUPPORTED unless the phase is one of a backward.
inline void require_backward(const tsr_op& op) {
  if (!has_input_half(op.phase) && !has_weight_half(op.phase)) refuse_phase(op);
}

inline SlotList token_embedding_slots(const tsr_op& op) {
  const SegmentSlots s{op};
  const uint64_t rows = num_rows(op), columns = extent(op, TSR_DIM_EMBED), elements = rows * columns;
  const uint64_t table = extent(op, TSR_DIM_VOCAB) * columns;
  VocabularyPart{op};  // refuses one that is none
  if (op.phase == TSR_PHASE_FORWARD) return {s.parameter(0, table), s.input(0, rows, TSR_I32), s.output(0, elements)};
  require_backward(op);
  if (!has_weight_half(op.phase)) return {};  // tokens have no gradient
  return {s.input(0, rows, TSR_I32), s.output_gradient(0, elements), s.gradient(0, table)};
}

inline SlotList position_embedding_slots(const tsr_op& op) {
  const SegmentSlots s{op};
  const uint64_t columns = extent(op, TSR_DIM_EMBED), elements = num_rows(op) * columns;
  const uint64_t table = extent(op, TSR_DIM_POSITIONS) * columns;
  PositionRows{op};  // refuses a table that is too short
  if (op.phase == TSR_PHASE_FORWARD) return {s.parameter(0, table), s.input(0, elements), s.output(0, elements)};
  require_backward(op);
  if (!has_weight_half(op.phase)) return {};  // the gradient of i0 is that of o0
  return {s.output_gradient(0, elements), s.gradient(0, table)};
}

/// The normed row is not kept: the backward makes it from the input, mean and 1/std. Both halves need the statistics.
inline SlotList layer_norm_slots(const tsr_op& op) {
  const SegmentSlots s{op};
  const uint64_t rows = num_rows(op), columns = extent(op, TSR_DIM_EMBED), elements = rows * columns;
  if (op.phase == TSR_PHASE_FORWARD)
    return {s.parameter(0, columns), s.parameter(1, columns),
            s.input(0, elements),    s.output(0, elements, TSR_SLOT_OPTIONAL),
            s.saved(0, rows),        s.saved(1, rows)};
  require_backward(op);
  SlotList slots;
  if (has_input_half(op.phase)) slots.push_back(s.parameter(0, columns));
  slots.insert(slots.end(),
               {s.input(0, elements), s.kept_saved(0, rows), s.kept_saved(1, rows), s.output_gradient(0, elements)});
  if (has_input_half(op.phase)) slots.push_back(s.input_gradient(0, elements));
  if (has_weight_half(op.phase)) slots.insert(slots.end(), {s.gradient(0, columns), s.gradient(1, columns)});
  return slots;
}

/// A backward with an activation has a context besides: the gradient of what the activation was given, [N,out].
inline SlotList linear_slots(const tsr_op& op) {
  const SegmentSlots s{op};
  const uint64_t rows = num_rows(op), in = extent(op, TSR_DIM_IN), out = extent(op, TSR_DIM_OUT);
  const bool has_bias = op.attributes[TSR_ATTR_HAS_BIAS] != 0;
  const bool has_activation = op.attributes[TSR_ATTR_ACTIVATION] != TSR_ACTIVATION_NONE;
  SlotList slots;
  if (op.phase == TSR_PHASE_FORWARD) {
    slots.push_back(s.parameter(0, in * out));
    if (has_bias) slots.push_back(s.parameter(1, out));
    slots.push_back(s.input(0, rows * in));
    slots.push_back(s.output(0, rows * out, has_activation ? TSR_SLOT_OPTIONAL : 0));
    if (has_activation) slots.push_back(s.saved(0, rows * out, op.dtype));
    return slots;
  }
  require_backward(op);
  if (has_input_half(op.phase)) slots.push_back(s.parameter(0, in * out));
  if (has_weight_half(op.phase)) slots.push_back(s.input(0, rows * in));
  if (has_input_half(op.phase) && has_activation) slots.push_back(s.kept_saved(0, rows * out, op.dtype));
  if (has_input_half(op.phase) || !has_activation) slots.push_back(s.output_gradient(0, rows * out));
  if (has_input_half(op.phase)) slots.push_back(s.input_gradient(0, rows * in));
  if (has_weight_half(op.phase)) slots.push_back(s.gradient(0, in * out));
  if (has_weight_half(op.phase) && has_bias) slots.push_back(s.gradient(1, out));
  return slots;
}

/// The softmax is not kept, [B,H,T,T] as it would be: the backward makes it again from q, k and the log-sum-exp of each
/// row, as FlashAttention does.
inline SlotList attention_slots(const tsr_op& op) {
  const SegmentSlots s{op};
  const uint64_t elements = num_rows(op) * extent(op, TSR_DIM_HEADS) * extent(op, TSR_DIM_HEAD_DIM);
  const uint64_t statistics = num_rows(op) * extent(op, TSR_DIM_HEADS);
  if (op.phase == TSR_PHASE_FORWARD)
    return {s.input(0, 3 * elements), s.output(0, elements, TSR_SLOT_OPTIONAL), s.saved(0, statistics)};
  require_backward(op);
  if (!has_input_half(op.phase)) return {};  // no parameters
  return {s.input(0, 3 * elements), s.kept_output(0, elements), s.kept_saved(0, statistics),
          s.output_gradient(0, elements), s.input_gradient(0, 3 * elements)};
}

/// The halves of a backward have a context besides: the gradient of the sum o0 [N,C].
inline SlotList add_layer_norm_slots(const tsr_op& op) {
  const SegmentSlots s{op};
  const uint64_t rows = num_rows(op), columns = extent(op, TSR_DIM_EMBED), elements = rows * columns;
  if (op.phase == TSR_PHASE_FORWARD)
    return {s.parameter(0, columns),
            s.parameter(1, columns),
            s.parameter(2, columns),
            s.input(0, elements),
            s.input(1, elements),
            s.output(0, elements),
            s.output(1, elements, TSR_SLOT_OPTIONAL),
            s.saved(0, rows),
            s.saved(1, rows)};
  require_backward(op);
  SlotList slots;
  if (has_input_half(op.phase)) slots.push_back(s.parameter(1, columns));
  slots.insert(slots.end(), {s.kept_output(0, elements), s.kept_saved(0, rows), s.kept_saved(1, rows)});
  if (has_input_half(op.phase)) slots.push_back(s.output_gradient(0, elements));
  slots.push_back(s.output_gradient(1, elements));
  if (has_input_half(op.phase))
    slots.insert(slots.end(), {s.input_gradient(0, elements), s.input_gradient(1, elements)});
  if (has_weight_half(op.phase))
    slots.insert(slots.end(), {s.gradient(0, columns), s.gradient(1, columns), s.gradient(2, columns)});
  return slots;
}

inline SlotList add_slots(const tsr_op& op) {
  const SegmentSlots s{op};
  const uint64_t columns = extent(op, TSR_DIM_EMBED), elements = num_rows(op) * columns;
  if (op.phase == TSR_PHASE_FORWARD)
    return {s.parameter(0, columns), s.input(0, elements), s.input(1, elements), s.output(0, elements)};
  require_backward(op);
  SlotList slots{s.output_gradient(0, elements)};
  if (has_input_half(op.phase)) slots.push_back(s.input_gradient(0, elements));
  if (has_weight_half(op.phase)) slots.push_back(s.gradient(0, columns));
  return slots;
}

/// Logits are not a slot: they never exist as a whole, [N,V] being the largest tensor of a small model.
inline SlotList loss_slots(const tsr_op& op) {
  const SegmentSlots s{op};
  const uint64_t rows = num_rows(op), elements = rows * extent(op, TSR_DIM_EMBED);
  const uint64_t table = extent(op, TSR_DIM_VOCAB) * extent(op, TSR_DIM_EMBED);
  if (op.phase != TSR_PHASE_FORWARD && op.phase != TSR_PHASE_BACKWARD) refuse_phase(op);
  SlotList slots{s.parameter(0, table), s.input(0, elements), s.input(1, rows, TSR_I32), s.loss()};
  if (op.phase == TSR_PHASE_BACKWARD)
    slots.insert(slots.end(), {s.loss_scale(), s.input_gradient(0, elements), s.gradient(0, table)});
  return slots;
}

/// The vocabulary-parallel loss needs two collectives between its parts, so here logits are a buffer, always in
/// float32. The row maximum has no gradient: it cancels out of the softmax.
inline SlotList head_logits_slots(const tsr_op& op) {
  const SegmentSlots s{op};
  const uint64_t rows = num_rows(op), elements = rows * extent(op, TSR_DIM_EMBED);
  const uint64_t vocabulary = extent(op, TSR_DIM_VOCAB), table = vocabulary * extent(op, TSR_DIM_EMBED);
  VocabularyPart{op};
  if (op.phase == TSR_PHASE_FORWARD)
    return {s.parameter(0, table), s.input(0, elements),
            slot_of(TSR_ROLE_OUTPUT, 0, TSR_MODE_WRITE, rows * vocabulary, TSR_F32),
            slot_of(TSR_ROLE_OUTPUT, 1, TSR_MODE_WRITE, rows, TSR_F32)};
  require_backward(op);
  SlotList slots;
  if (has_input_half(op.phase)) slots.push_back(s.parameter(0, table));
  if (has_weight_half(op.phase)) slots.push_back(s.input(0, elements));
  slots.push_back(s.output_gradient(0, rows * vocabulary, TSR_F32));
  if (has_input_half(op.phase)) slots.push_back(s.input_gradient(0, elements));
  if (has_weight_half(op.phase)) slots.push_back(s.gradient(0, table));
  return slots;
}

inline SlotList softmax_stats_slots(const tsr_op& op) {
  const SegmentSlots s{op};
  if (op.phase != TSR_PHASE_FORWARD) refuse_phase(op);
  VocabularyPart{op};
  const uint64_t rows = num_rows(op);
  return {s.input(0, rows * extent(op, TSR_DIM_VOCAB)), s.input(1, rows), s.input(2, rows, TSR_I32), s.output(0, rows),
          s.output(1, rows)};
}

inline SlotList loss_grad_slots(const tsr_op& op) {
  const SegmentSlots s{op};
  if (op.phase != TSR_PHASE_FORWARD && op.phase != TSR_PHASE_BACKWARD) refuse_phase(op);
  VocabularyPart{op};
  const uint64_t rows = num_rows(op), logits = rows * extent(op, TSR_DIM_VOCAB);
  if (op.phase == TSR_PHASE_FORWARD) return {s.input(1, rows), s.input(2, rows), s.input(3, rows), s.loss()};
  return {s.input(0, logits),        s.input(1, rows), s.input(2, rows), s.input(3, rows),
          s.input(4, rows, TSR_I32), s.loss(),         s.loss_scale(),   s.input_gradient(0, logits)};
}

/// Throws UNSUPPORTED unless values are float32, bfloat16 or float16, logits float32, and gradients of parameters
/// float32: what the ops above are made of.
inline void check_segment_dtypes(const tsr_op& op) {
  const auto refuse = [&](const std::string& reason) {
    throw Error(TSR_E_UNSUPPORTED, "op " + op_name(op.kind) + reason);
  };
  if (op.dtype != TSR_F32 && op.dtype != TSR_BF16 && op.dtype != TSR_F16)
    refuse(" on values of " + dtype_name(op.dtype) + " is not computed here; float32, bfloat16 and float16 are");
  if (op.dtype != TSR_F32 && (op.kind == TSR_OP_SOFTMAX_STATS || op.kind == TSR_OP_LOSS_GRAD))
    refuse(" on values of " + dtype_name(op.dtype) +
           " is not computed here; logits are float32, whatever the dtype of values");
  if (op.phase != TSR_PHASE_FORWARD && op.gradient_dtype != TSR_F32)
    refuse(" with gradients of parameters in " + dtype_name(op.gradient_dtype) +
           " is not computed here; they are float32, whatever the dtype of values");
}

/// COPY, CAST, ADD_INTO, SCALE: their slots; ZERO: one destination of ELEMENTS elements (it takes any number of them).
inline SlotList elementwise_slots(const tsr_op& op) {
  const uint64_t n = num_elements(op);
  const bool adds = op.kind == TSR_OP_ADD_INTO || op.kind == TSR_OP_SCALE;
  const tsr_slot_spec dst = slot_of(TSR_ROLE_DESTINATION, 0, adds ? TSR_MODE_ADD : TSR_MODE_WRITE, n,
                                    op.kind == TSR_OP_CAST ? op.destination_dtype : op.dtype);
  if (op.kind == TSR_OP_SCALE || op.kind == TSR_OP_ZERO) return {dst};
  return {slot_of(TSR_ROLE_SOURCE, 0, TSR_MODE_READ, n, op.dtype), dst};
}

/// SUM_SQUARES, CLIP, ADAMW, SGD. Throws UNSUPPORTED unless homes and gradients are float32.
inline SlotList step_slots(const tsr_op& op) {
  const auto scalar = [](uint32_t index, uint32_t mode, uint64_t n, tsr_dtype dtype, uint32_t flags = 0) {
    return slot_of(TSR_ROLE_SCALAR, index, mode, n, dtype, flags);
  };
  const auto accumulator = [&](uint32_t mode) {
    return scalar(TSR_SCALAR_ACCUMULATOR, mode, TSR_ACCUMULATOR_LIMBS, TSR_I64);
  };
  if (op.kind == TSR_OP_CLIP)
    return {accumulator(TSR_MODE_READ), scalar(TSR_SCALAR_CLIP, TSR_MODE_WRITE, 3, TSR_F64),
            scalar(TSR_SCALAR_STEP, TSR_MODE_ADD, 1, TSR_I64),
            scalar(TSR_SCALAR_LOSS_SCALE, TSR_MODE_READ, 1, TSR_F64, TSR_SLOT_OPTIONAL)};
  if (op.dtype != TSR_F32 || (op.gradient_dtype != TSR_F32 && op.gradient_dtype != 0))
    throw Error(TSR_E_UNSUPPORTED, "sums of squares and optimizers compute float32 only, not " + dtype_name(op.dtype) +
                                       " with gradients in " + dtype_name(op.gradient_dtype));
  const uint64_t n = num_elements(op);
  const tsr_slot_spec source = slot_of(TSR_ROLE_SOURCE, 0, TSR_MODE_READ, n, TSR_F32);
  if (op.kind == TSR_OP_SUM_SQUARES) return {source, accumulator(TSR_MODE_ADD)};
  SlotList slots{slot_of(TSR_ROLE_DESTINATION, 0, TSR_MODE_ADD, n, TSR_F32), source,
                 slot_of(TSR_ROLE_STATE, 0, TSR_MODE_ADD, n, TSR_F32)};
  if (op.kind == TSR_OP_ADAMW) slots.push_back(slot_of(TSR_ROLE_STATE, 1, TSR_MODE_ADD, n, TSR_F32));
  slots.insert(slots.end(),
               {scalar(TSR_SCALAR_CLIP, TSR_MODE_READ, 3, TSR_F64), scalar(TSR_SCALAR_STEP, TSR_MODE_READ, 1, TSR_I64),
                scalar(TSR_SCALAR_LR, TSR_MODE_READ, 1, TSR_F64)});
  return slots;
}

/// The slots of any op; UNSUPPORTED for a kind that ABI 0.10 does not have.
inline SlotList slots_of(const tsr_op& op) {
  if (op.kind >= TSR_OP_SUM_SQUARES && op.kind <= TSR_OP_SGD) return step_slots(op);
  if (op.kind >= TSR_OP_COPY && op.kind <= TSR_OP_ZERO) return elementwise_slots(op);
  check_segment_dtypes(op);
  switch (op.kind) {
    case TSR_OP_TOKEN_EMBEDDING:
      return token_embedding_slots(op);
    case TSR_OP_POSITION_EMBEDDING:
      return position_embedding_slots(op);
    case TSR_OP_LAYER_NORM:
      return layer_norm_slots(op);
    case TSR_OP_LINEAR:
      return linear_slots(op);
    case TSR_OP_ATTENTION:
      return attention_slots(op);
    case TSR_OP_ADD_LAYER_NORM:
      return add_layer_norm_slots(op);
    case TSR_OP_ADD:
      return add_slots(op);
    case TSR_OP_LOSS:
      return loss_slots(op);
    case TSR_OP_HEAD_LOGITS:
      return head_logits_slots(op);
    case TSR_OP_SOFTMAX_STATS:
      return softmax_stats_slots(op);
    case TSR_OP_LOSS_GRAD:
      return loss_grad_slots(op);
    default:
      throw Error(TSR_E_UNSUPPORTED, "this device does not know op " + op_name(op.kind));
  }
}

}  // namespace tessera::op
