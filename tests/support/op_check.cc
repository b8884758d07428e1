#include "support/op_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu-device/slots.h"
#include "support/reference_kernels.h"

namespace tessera::testing {
namespace {

Tensors widen(const Operands& operands) {
  Tensors tensors;
  for (const auto& [slot, values] : operands.floats)
    tensors[slot].assign(values.begin(), values.end());
  return tensors;
}

bool is_gradient(uint32_t slot) {
  return TSR_SLOT_ROLE(slot) == TSR_ROLE_GRADIENT || TSR_SLOT_ROLE(slot) == TSR_ROLE_INPUT_GRADIENT;
}

std::vector<tsr_slot_spec> describe(const tsr_op& op) {
  return cpu::compute_ops(op.kind)->describe(op);
}

// Of `roles`, the results of `actual` have the bits of `expected`.
void expect_same_bits(const tsr_op& op, const Operands& actual, const Operands& expected, const std::string& what) {
  for (const tsr_slot_spec& slot : describe(op)) {
    const uint32_t role = TSR_SLOT_ROLE(slot.slot);
    if (role == TSR_ROLE_WORKSPACE) continue;
    const auto a = actual.floats.find(slot.slot), b = expected.floats.find(slot.slot);
    if (a == actual.floats.end() || b == expected.floats.end()) continue;
    EXPECT_EQ(std::memcmp(a->second.data(), b->second.data(), b->second.size() * sizeof(float)), 0)
        << cpu::slot_name(slot.slot) << " differs: " << what << ", dtype " << cpu::dtype_name(op.dtype);
  }
}

// The operands as the slots of `op` hold them.
Operands as_bound(const tsr_op& op, Operands operands) {
  for (const tsr_slot_spec& slot : describe(op))
    if (const auto found = operands.floats.find(slot.slot); found != operands.floats.end())
      for (float& value : found->second)
        value = rounded(slot.dtype, value);
  return operands;
}

// Its backward is not that of a forward before it.
bool makes_loss(const tsr_op& op) {
  return op.kind == TSR_OP_LOSS || op.kind == TSR_OP_LOSS_GRAD;
}

// Parameters, inputs, outputs and saved tensors of a forward, and random gradients of outputs.
Operands after_forward(tsr_op op, const Operands& operands) {
  op.phase = makes_loss(op) ? TSR_PHASE_BACKWARD : TSR_PHASE_FORWARD;
  Operands kept = as_bound(op, operands);
  if (makes_loss(op)) return kept;
  kept = run(op, kept);
  op.phase = TSR_PHASE_BACKWARD;
  for (const tsr_slot_spec& slot : describe(op))
    if (TSR_SLOT_ROLE(slot.slot) == TSR_ROLE_OUTPUT_GRADIENT)
      kept.floats[slot.slot] = random_floats(slot.num_elements, 77 + out(TSR_SLOT_INDEX(slot.slot)));
  return as_bound(op, std::move(kept));
}

Operands with_started_gradients(const tsr_op& op, Operands operands) {
  for (const tsr_slot_spec& slot : describe(op))
    if (is_gradient(slot.slot)) operands.floats[slot.slot] = random_floats(slot.num_elements, 99 + slot.slot);
  return as_bound(op, std::move(operands));
}

// `tolerance` of float32, for a result in `slot`: see the header.
Tolerance tolerance_of(const tsr_op& op, const tsr_slot_spec& slot, Tolerance tolerance) {
  if (is_16_bit(slot.dtype)) tolerance.relative += roundoff(slot.dtype);
  if (op.phase == TSR_PHASE_FORWARD) return tolerance;
  const auto slots = describe(op);
  const bool reads_rounded = std::any_of(slots.begin(), slots.end(), [](const tsr_slot_spec& s) {
    const uint32_t role = TSR_SLOT_ROLE(s.slot);
    return (role == TSR_ROLE_OUTPUT || role == TSR_ROLE_SAVED) && is_16_bit(s.dtype);
  });
  if (reads_rounded) tolerance.relative += kKeptRoundoffs * roundoff(op.dtype);
  return tolerance;
}

void expect_gradients(const tsr_op& op, const Operands& actual, const Operands& started, const Tensors& reference,
                      Tolerance tolerance, const std::string& what) {
  for (const tsr_slot_spec& slot : describe(op)) {
    if (!is_gradient(slot.slot)) continue;
    Tensor expected = reference.at(slot.slot);
    if (const auto start = started.floats.find(slot.slot); start != started.floats.end())
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] += double{start->second[i]};
    expect_close(actual.floats.at(slot.slot), expected, tolerance_of(op, slot, tolerance),
                 cpu::slot_name(slot.slot) + ", " + what);
  }
}

// backward_input, then backward_weight with the contexts it left.
Operands run_halves(tsr_op op, const Operands& operands, const RunOptions& options) {
  op.phase = TSR_PHASE_BACKWARD_INPUT;
  const Operands between = run(op, operands, options);
  op.phase = TSR_PHASE_BACKWARD_WEIGHT;
  return run(op, between, options);
}

void check_left_out_gradients(const tsr_op& op, const Operands& kept, const Operands& whole, uint32_t mode) {
  for (const tsr_slot_spec& slot : describe(op)) {
    if (!is_gradient(slot.slot)) continue;
    const Operands partial = run(op, kept, {.gradient_mode = mode, .left_out = {slot.slot}});
    Operands others = whole;
    others.floats.erase(slot.slot);
    expect_same_bits(op, partial, others, "without " + cpu::slot_name(slot.slot));
  }
}

void check_forward_in_dtype(const tsr_op& op, const Operands& unrounded, Tolerance tolerance) {
  const Operands operands = as_bound(op, unrounded);
  const Tensors reference = reference_forward(op, widen(operands), operands.tokens);
  const Operands plain = run(op, operands);
  for (const int num_threads : {1, 2, 3}) {
    const Operands results = run(op, operands, {.num_threads = num_threads});
    for (const tsr_slot_spec& slot : describe(op))
      if (slot.mode == TSR_MODE_WRITE && TSR_SLOT_ROLE(slot.slot) != TSR_ROLE_WORKSPACE)
        expect_close(results.floats.at(slot.slot), reference.at(slot.slot), tolerance_of(op, slot, tolerance),
                     cpu::slot_name(slot.slot) + ", " + std::to_string(num_threads) + " threads, dtype " +
                         cpu::dtype_name(op.dtype));
  }
  for (const int offset : {1, 2, 3, -1})
    expect_same_bits(op, run(op, operands, {.offset = offset}), plain, "offset " + std::to_string(offset));
  for (const tsr_slot_spec& slot : describe(op))
    if (slot.flags & TSR_SLOT_OPTIONAL)
      expect_same_bits(op, run(op, operands, {.left_out = {slot.slot}}), plain, "without " + cpu::slot_name(slot.slot));
}

void check_backward_in_dtype(tsr_op op, const Operands& operands, Tolerance tolerance) {
  const Operands forward = after_forward(op, operands);
  op.phase = TSR_PHASE_BACKWARD;
  const Tensors reference = reference_backward(op, widen(forward), operands.tokens);
  for (const uint32_t mode : {TSR_MODE_ADD, TSR_MODE_WRITE}) {
    const Operands started = mode == TSR_MODE_ADD ? with_started_gradients(op, forward) : forward;
    const Operands whole = run(op, started, {.gradient_mode = mode});
    for (const int num_threads : {1, 2, 3}) {
      const std::string what = std::to_string(num_threads) + " threads, mode " + std::to_string(mode) + ", dtype " +
                               cpu::dtype_name(op.dtype);
      const RunOptions options{.num_threads = num_threads, .gradient_mode = mode};
      const Operands results = run(op, started, options);
      expect_gradients(op, results, started, reference, tolerance, what);
      if (!makes_loss(op)) expect_same_bits(op, run_halves(op, started, options), results, "halves, " + what);
    }
    for (const int offset : {1, 2, 3, -1})
      expect_same_bits(op, run(op, started, {.gradient_mode = mode, .offset = offset}), whole,
                       "offset " + std::to_string(offset));
    check_left_out_gradients(op, started, whole, mode);
  }
}

std::vector<tsr_dtype> dtypes_of(const tsr_op& op) {
  if (op.kind == TSR_OP_SOFTMAX_STATS || op.kind == TSR_OP_LOSS_GRAD) return {TSR_F32};
  return {TSR_F32, TSR_BF16, TSR_F16};
}

}  // namespace

double roundoff(tsr_dtype dtype) {
  if (dtype == TSR_BF16) return 0x1p-8;
  return dtype == TSR_F16 ? 0x1p-11 : 0;
}

void expect_close(const std::vector<float>& actual, const std::vector<double>& expected, Tolerance tolerance,
                  const std::string& name) {
  ASSERT_EQ(actual.size(), expected.size()) << name;
  double squares = 0;
  for (double value : expected)
    squares += value * value;
  const double typical = std::sqrt(squares / static_cast<double>(expected.size()));
  size_t worst = 0;
  double worst_error = -1;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(double{actual[i]} - expected[i]) / (std::abs(expected[i]) + typical + 1e-30);
    if (!(error <= worst_error)) {
      worst = i;
      worst_error = error;
    }
    if (std::isnan(error)) break;
  }
  EXPECT_LE(worst_error, tolerance.relative)
      << name << "[" << worst << "] of " << expected.size() << " is " << actual[worst] << ", not " << expected[worst];
}

void check_forward(tsr_op op, const Operands& operands, Tolerance tolerance) {
  op.phase = TSR_PHASE_FORWARD;
  for (const tsr_dtype dtype : dtypes_of(op)) {
    op.dtype = dtype;
    check_forward_in_dtype(op, operands, tolerance);
  }
}

void check_backward(tsr_op op, const Operands& operands, Tolerance tolerance) {
  for (const tsr_dtype dtype : dtypes_of(op)) {
    op.dtype = dtype;
    check_backward_in_dtype(op, operands, tolerance);
  }
}

void check_reference(const tsr_op& op, const Operands& operands) {
  const Tensors tensors = widen(after_forward(op, operands));
  for (const auto& [slot, gradient] : reference_backward(op, tensors, operands.tokens)) {
    const Tensor numerical = numerical_gradient(op, tensors, operands.tokens, slot);
    const std::vector<float> narrowed(gradient.begin(), gradient.end());
    expect_close(narrowed, numerical, {1e-6}, "reference of " + cpu::slot_name(slot));
  }
}

}  // namespace tessera::testing
