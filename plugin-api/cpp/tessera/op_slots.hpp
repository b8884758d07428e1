// SPDX-License-Identifier: Apache-2.0
// For authors of devices: the slots of every op of tessera/device.h, as plugin-abi.md lists them, without what is
// a device's own: workspaces and contexts.
//
// A device's describe() starts from these lists and appends its scratch, so that two devices differ in nothing else,
// and a program planned for one has the same buffers on the other. The host allocates what is listed here and nothing
// more: a slot that a backward half does not list is a buffer whose life ends earlier, so each half lists only what it
// reads. The order within a list is that of the table in plugin-abi.md.
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

  /// Of the ranks of a split vocabulary, one has it.
  bool has_first_token() const { return begin == 0 && count > 0; }

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

/// What LINEAR does to its product.
enum class Activation { kNone, kGelu, kRelu };

/// From TSR_ATTR_ACTIVATION. Throws UNSUPPORTED for an unknown one.
inline Activation activation_of(const tsr_op& op) {
  const double value = op.attributes[TSR_ATTR_ACTIVATION];
  if (value == TSR_ACTIVATION_NONE) return Activation::kNone;
  if (value == TSR_ACTIVATION_GELU_TANH) return Activation::kGelu;
  if (value == TSR_ACTIVATION_RELU) return Activation::kRelu;
  throw Error(TSR_E_UNSUPPORTED,
              "linear has activation " + std::to_string(value) + "; known are 0 (none), 1 (tanh GELU) and 2 (ReLU)");
}

// ---- ops of segments --------------------------------------------------------------------------------------------
// Values and parameters are of the op's dtype, gradients of parameters and statistics float32. Gradients that are
// written are optional, since they may not be needed. An empty list means that this half of a backward has nothing to
// do; split_backward then leaves it out.

/// Lists the slots of one op.
class SegmentSlots {
 public:
  SegmentSlots(const tsr_op& op, const OpEntry& entry) : op_(op), entry_(entry) {
    for (const int dim : entry.begin) {
      if (dim == TSR_DIM_VOCAB) VocabularyPart{op};  // refuses one that is not a part
      if (dim == TSR_DIM_SEQ) PositionRows{op};      // refuses a table that is too short
    }
  }

  SlotList forward() {
    for (const OperandEntry& operand : entry_.operands)
      if (operand.exists.holds(op_) && operand.is_read_by_forward) add_forward(operand);
    return std::move(slots_);
  }

  SlotList backward() {
    for (const OperandEntry& operand : entry_.operands)
      if (operand.exists.holds(op_) && is_read(operand.input_half, operand.weight_half)) add(operand, TSR_MODE_READ);
    for (const OperandEntry& operand : entry_.operands)
      if (is_read(operand.gradient_input_half, operand.gradient_weight_half))
        add_as(operand, TSR_ROLE_OUTPUT_GRADIENT, TSR_MODE_READ, dtype_of(operand));
    add_scalars();
    if (has_input_half(op_.phase)) add_gradients(TSR_ROLE_INPUT, TSR_ROLE_INPUT_GRADIENT, op_.dtype);
    if (has_weight_half(op_.phase)) add_gradients(TSR_ROLE_PARAMETER, TSR_ROLE_GRADIENT, TSR_F32);
    return std::move(slots_);
  }

 private:
  tsr_dtype dtype_of(const OperandEntry& operand) const {
    if (operand.type == OperandType::int32) return TSR_I32;
    return operand.type == OperandType::float32 ? TSR_F32 : op_.dtype;
  }
  uint64_t num_elements_of(const OperandEntry& operand) const {
    constexpr uint64_t kMost = uint64_t{1} << 56;  // bytes of any dtype, and sums of some of them, fit 64 bits
    uint64_t n = operand.factor;
    for (const int dim : operand.dims)
      if (__builtin_mul_overflow(n, extent(op_, dim), &n) || n > kMost)
        throw Error(TSR_E_INVALID_ARGUMENT, "op " + op_name(op_.kind) + " has extents that are too large to address");
    return n;
  }
  bool is_read(const Reader& input_half, const Reader& weight_half) const {
    const auto reads = [&](const Reader& reader) { return reader.reads && reader.when.holds(op_); };
    return (has_input_half(op_.phase) && reads(input_half)) || (has_weight_half(op_.phase) && reads(weight_half));
  }

  void add_as(const OperandEntry& operand, uint32_t role, uint32_t mode, tsr_dtype dtype, uint32_t flags = 0) {
    slots_.push_back(slot_of(role, operand.index, mode, num_elements_of(operand), dtype, flags));
  }
  void add(const OperandEntry& operand, uint32_t mode, uint32_t flags = 0) {
    add_as(operand, operand.role, mode, dtype_of(operand), flags);
  }
  void add_forward(const OperandEntry& operand) {
    if (operand.role == TSR_ROLE_SCALAR) return add_scalar(operand);
    if (operand.role == TSR_ROLE_OUTPUT)
      return add(operand, TSR_MODE_WRITE,
                 operand.may_be_left_out && operand.left_out.holds(op_) ? TSR_SLOT_OPTIONAL : 0);
    if (operand.role == TSR_ROLE_SAVED) return add(operand, TSR_MODE_WRITE, TSR_SLOT_OPTIONAL);
    add(operand, TSR_MODE_READ);
  }
  void add_scalar(const OperandEntry& operand) {
    const bool is_loss = operand.index == TSR_SCALAR_LOSS;
    slots_.push_back(slot_of(TSR_ROLE_SCALAR, operand.index, TSR_MODE_ADD, is_loss ? TSR_ACCUMULATOR_LIMBS : 1, TSR_I64,
                             is_loss ? 0 : TSR_SLOT_OPTIONAL));
  }
  void add_scalars() {
    if (!entry_.makes_loss()) return;
    for (const OperandEntry& operand : entry_.operands)
      if (operand.role == TSR_ROLE_SCALAR) add_scalar(operand);
    slots_.push_back(slot_of(TSR_ROLE_SCALAR, TSR_SCALAR_LOSS_SCALE, TSR_MODE_READ, 1, TSR_F64, TSR_SLOT_OPTIONAL));
  }
  void add_gradients(uint32_t role, uint32_t gradient_role, tsr_dtype dtype) {
    for (const OperandEntry& operand : entry_.operands)
      if (operand.role == role && operand.has_gradient && !operand.is_alias && operand.exists.holds(op_))
        add_as(operand, gradient_role, TSR_MODE_ADD, dtype, TSR_SLOT_OPTIONAL);
  }

  const tsr_op& op_;
  const OpEntry& entry_;
  SlotList slots_;
};

inline bool has_phase(const OpEntry& entry, uint32_t phase) {
  if (phase == TSR_PHASE_FORWARD) return true;
  if (phase == TSR_PHASE_BACKWARD) return entry.backward != Backward::none;
  return entry.backward == Backward::halves && (has_input_half(phase) || has_weight_half(phase));
}

/// Throws UNSUPPORTED unless values are float32, bfloat16 or float16, logits float32, and gradients of parameters
/// float32: what the ops above are made of.
inline void check_segment_dtypes(const tsr_op& op) {
  const auto refuse = [&](const std::string& reason) {
    throw Error(TSR_E_UNSUPPORTED, "op " + op_name(op.kind) + reason);
  };
  if (op.dtype != TSR_F32 && op.dtype != TSR_BF16 && op.dtype != TSR_F16)
    refuse(" on values of " + dtype_name(op.dtype) + " is not computed here; float32, bfloat16 and float16 are");
  if (const OpEntry* entry = find_op(op.kind); op.dtype != TSR_F32 && entry && entry->is_float32_only)
    refuse(" on values of " + dtype_name(op.dtype) +
           " is not computed here; logits are float32, whatever the dtype of values");
  if (op.phase != TSR_PHASE_FORWARD && op.gradient_dtype != TSR_F32)
    refuse(" with gradients of parameters in " + dtype_name(op.gradient_dtype) +
           " is not computed here; they are float32, whatever the dtype of values");
}

/// The slots of an op of segments, without what is the device's own. Throws UNSUPPORTED for dtypes and phases that the
/// op does not have, and INVALID_ARGUMENT for extents that it cannot have.
inline SlotList segment_slots(const tsr_op& op) {
  const OpEntry* entry = find_op(op.kind);
  if (!entry || !entry->is_segment_op())
    throw Error(TSR_E_UNSUPPORTED, "this device does not know op " + op_name(op.kind));
  check_segment_dtypes(op);
  if (!has_phase(*entry, op.phase)) refuse_phase(op);
  SegmentSlots slots(op, *entry);
  return op.phase == TSR_PHASE_FORWARD ? slots.forward() : slots.backward();
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
  const auto accumulator = [&](uint32_t mode, uint64_t num_words) {
    return scalar(TSR_SCALAR_ACCUMULATOR, mode, num_words, TSR_I64);
  };
  if (op.kind == TSR_OP_CLIP)
    return {accumulator(TSR_MODE_READ, TSR_SQUARES_WORDS), scalar(TSR_SCALAR_CLIP, TSR_MODE_WRITE, 3, TSR_F64),
            scalar(TSR_SCALAR_STEP, TSR_MODE_ADD, 1, TSR_I64),
            scalar(TSR_SCALAR_LOSS_SCALE, TSR_MODE_READ, 1, TSR_F64, TSR_SLOT_OPTIONAL)};
  if (op.dtype != TSR_F32 || (op.gradient_dtype != TSR_F32 && op.gradient_dtype != 0))
    throw Error(TSR_E_UNSUPPORTED, "sums of squares and optimizers compute float32 only, not " + dtype_name(op.dtype) +
                                       " with gradients in " + dtype_name(op.gradient_dtype));
  const uint64_t n = num_elements(op);
  const tsr_slot_spec source = slot_of(TSR_ROLE_SOURCE, 0, TSR_MODE_READ, n, TSR_F32);
  if (op.kind == TSR_OP_SUM_SQUARES) return {source, accumulator(TSR_MODE_ADD, TSR_ACCUMULATOR_LIMBS)};
  SlotList slots{slot_of(TSR_ROLE_DESTINATION, 0, TSR_MODE_ADD, n, TSR_F32), source,
                 slot_of(TSR_ROLE_STATE, 0, TSR_MODE_ADD, n, TSR_F32)};
  if (op.kind == TSR_OP_ADAMW) slots.push_back(slot_of(TSR_ROLE_STATE, 1, TSR_MODE_ADD, n, TSR_F32));
  slots.insert(slots.end(),
               {scalar(TSR_SCALAR_CLIP, TSR_MODE_READ, 3, TSR_F64), scalar(TSR_SCALAR_STEP, TSR_MODE_READ, 1, TSR_I64),
                scalar(TSR_SCALAR_LR, TSR_MODE_READ, 1, TSR_F64)});
  return slots;
}

/// The slots of any op; UNSUPPORTED for a kind that this ABI does not have.
inline SlotList slots_of(const tsr_op& op) {
  if (op.kind >= TSR_OP_SUM_SQUARES && op.kind <= TSR_OP_SGD) return step_slots(op);
  if (op.kind >= TSR_OP_COPY && op.kind <= TSR_OP_ZERO) return elementwise_slots(op);
  return segment_slots(op);
}

}  // namespace tessera::op
