#include "support/op_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "support/reference_kernels.h"
#include "tessera/op_slots.hpp"

namespace tessera::testing {
namespace {

Tensors widen(const Operands& operands) {
  Tensors tensors;
  for (const auto& [slot, values] : operands.floats)
    tensors[slot].assign(values.begin(), values.end());
  return tensors;
}

Tensor widen(const std::vector<float>& values) {
  return Tensor(values.begin(), values.end());
}

bool is_gradient(uint32_t slot) {
  return TSR_SLOT_ROLE(slot) == TSR_ROLE_GRADIENT || TSR_SLOT_ROLE(slot) == TSR_ROLE_INPUT_GRADIENT;
}

// Written by the op, as floats.
bool is_result(const tsr_slot_spec& slot) {
  return slot.mode != TSR_MODE_READ && TSR_SLOT_ROLE(slot.slot) != TSR_ROLE_SCALAR;
}

// The operands as the slots of `op` hold them.
Operands as_bound(const tsr_op& op, Operands operands) {
  for (const tsr_slot_spec& slot : op::slots_of(op))
    if (const auto found = operands.floats.find(slot.slot); found != operands.floats.end())
      for (float& value : found->second)
        value = rounded(slot.dtype, value);
  return operands;
}

// Its backward is not that of a forward before it.
bool makes_loss(const tsr_op& op) {
  return op::find_op(op.kind)->makes_loss();
}

Operands with_output_gradients(tsr_op op, Operands operands) {
  op.phase = TSR_PHASE_BACKWARD;
  for (const tsr_slot_spec& slot : op::slots_of(op))
    if (TSR_SLOT_ROLE(slot.slot) == TSR_ROLE_OUTPUT_GRADIENT)
      operands.floats[slot.slot] = random_floats(slot.num_elements, 77 + out(TSR_SLOT_INDEX(slot.slot)));
  return as_bound(op, std::move(operands));
}

// Parameters, inputs, outputs and saved tensors of a forward, and random gradients of outputs.
Operands after_forward(const CheckedDevice& device, tsr_op op, const Operands& operands) {
  op.phase = makes_loss(op) ? TSR_PHASE_BACKWARD : TSR_PHASE_FORWARD;
  const Operands bound = as_bound(op, operands);
  return makes_loss(op) ? bound : with_output_gradients(op, run(device.runner, op, bound));
}

Operands with_started_gradients(const tsr_op& op, Operands operands) {
  for (const tsr_slot_spec& slot : op::slots_of(op))
    if (is_gradient(slot.slot)) operands.floats[slot.slot] = random_floats(slot.num_elements, 99 + slot.slot);
  return as_bound(op, std::move(operands));
}

// The results of `actual` are `expected`, and of gradients with mode ADD, what was there before besides. What is not in
// `actual` was left out.
void expect_results(const CheckedDevice& device, const tsr_op& op, const Operands& actual, const Operands* started,
                    const Tensors& reference, Tolerance tolerance, const std::string& what) {
  for (const tsr_slot_spec& slot : op::slots_of(op)) {
    const auto found = actual.floats.find(slot.slot);
    if (!is_result(slot) || found == actual.floats.end()) continue;
    Tensor expected = reference.at(slot.slot);
    if (started)
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] += double{started->floats.at(slot.slot)[i]};
    expect_close(found->second, expected, tolerance_of(device, op, slot, tolerance),
                 op_text(op) + " " + op::slot_name(slot.slot) + ", " + what);
  }
}

void expect_peers_results(const CheckedDevice& device, const tsr_op& op, const Operands& actual,
                          const Operands& operands, uint32_t mode, Tolerance tolerance) {
  if (!device.peer) return;
  const Operands peers = run(*device.peer, op, operands, {.gradient_mode = mode});
  for (const tsr_slot_spec& slot : op::slots_of(op))
    if (is_result(slot))
      expect_close(actual.floats.at(slot.slot), widen(peers.floats.at(slot.slot)),
                   {2 * tolerance_of(device, op, slot, tolerance).relative},
                   op_text(op) + " " + op::slot_name(slot.slot) + " against the peer's");
}

// backward_input, then backward_weight with the contexts it left.
Operands run_halves(DeviceRunner& device, tsr_op op, const Operands& operands, const RunOptions& options) {
  op.phase = TSR_PHASE_BACKWARD_INPUT;
  const Operands between = run(device, op, operands, options);
  op.phase = TSR_PHASE_BACKWARD_WEIGHT;
  return run(device, op, between, options);
}

// One op in one phase and dtype, and what its results are.
struct Run {
  const CheckedDevice& device;
  const tsr_op& op;
  const Operands& operands;
  const Operands* started;  // gradients, where they are added to
  const Tensors& reference;
  Tolerance tolerance;
  uint32_t gradient_mode;

  RunOptions options() const { return {.gradient_mode = gradient_mode}; }

  void expect(const Operands& results, const std::string& what) const {
    const char* mode = started ? "add" : "write";
    expect_results(device, op, results, started, reference, tolerance, what + ", mode " + mode);
  }
  // The bits of `plain` where the device promises them, else the results.
  void expect_same(const Operands& results, const Operands& plain, bool may_differ, const std::string& what) const {
    if (may_differ)
      expect(results, what);
    else
      expect_same_bits(op, results, plain, what);
  }
};

void check_offsets(const Run& run_of, const Operands& plain) {
  const bool may_differ = uses_library(run_of.device, run_of.op);
  for (const int offset : {1, 2, 3, -1, 64}) {  // 64: as aligned as without
    RunOptions options = run_of.options();
    options.offset = offset;
    run_of.expect_same(run(run_of.device.runner, run_of.op, run_of.operands, options), plain,
                       may_differ && offset != 64, "offset " + std::to_string(offset));
  }
}

// A library's forward has another algorithm for attention whose output or statistics are left out, not for products.
void check_left_out(const Run& run_of, const Operands& plain) {
  const bool keeps_bits = run_of.op.phase == TSR_PHASE_FORWARD && run_of.op.kind != TSR_OP_ATTENTION;
  for (const tsr_slot_spec& slot : op::slots_of(run_of.op)) {
    if (!is_result(slot) || !(slot.flags & TSR_SLOT_OPTIONAL)) continue;
    RunOptions options = run_of.options();
    options.left_out = {slot.slot};
    Operands operands = run_of.operands, others = plain;
    operands.floats.erase(slot.slot);
    others.floats.erase(slot.slot);
    run_of.expect_same(run(run_of.device.runner, run_of.op, operands, options), others,
                       !keeps_bits && uses_library(run_of.device, run_of.op), "without " + op::slot_name(slot.slot));
  }
}

Operands check_plain(const Run& run_of) {
  DeviceRunner& runner = run_of.device.runner;
  const Operands plain = run(runner, run_of.op, run_of.operands, run_of.options());
  for (const int num_threads : run_of.device.thread_counts) {
    RunOptions options = run_of.options();
    options.num_threads = num_threads;
    const Operands results = run(runner, run_of.op, run_of.operands, options);
    run_of.expect(results, std::to_string(num_threads) + " threads");
    if (num_threads == 1) expect_same_bits(run_of.op, results, plain, "a second run");
  }
  if (runner.has_graphs()) {
    RunOptions options = run_of.options();
    options.in_graph = true;
    expect_same_bits(run_of.op, run(runner, run_of.op, run_of.operands, options), plain, "from a graph");
  }
  expect_peers_results(run_of.device, run_of.op, plain, run_of.operands, run_of.gradient_mode, run_of.tolerance);
  return plain;
}

void check_forward_in_dtype(const CheckedDevice& device, const tsr_op& op, const Operands& unrounded,
                            Tolerance tolerance, Checks checks) {
  const Operands operands = as_bound(op, unrounded);
  const Tensors reference = reference_forward(op, widen(operands), operands.tokens);
  const Run run_of{device, op, operands, nullptr, reference, tolerance, TSR_MODE_WRITE};
  const Operands plain = check_plain(run_of);
  if (checks == Checks::kFew) return;
  check_offsets(run_of, plain);
  check_left_out(run_of, plain);
}

void check_backward_in_dtype(const CheckedDevice& device, tsr_op op, const Operands& operands, Tolerance tolerance,
                             Checks checks) {
  const Operands forward = after_forward(device, op, operands);
  op.phase = TSR_PHASE_BACKWARD;
  const Tensors reference = reference_backward(op, widen(forward), operands.tokens);
  for (const uint32_t mode : {TSR_MODE_ADD, TSR_MODE_WRITE}) {
    const bool adds = mode == TSR_MODE_ADD;
    const Operands started = adds ? with_started_gradients(op, forward) : forward;
    const Run run_of{device, op, started, adds ? &started : nullptr, reference, tolerance, mode};
    const Operands whole = check_plain(run_of);
    if (!makes_loss(op))
      for (const int num_threads : device.thread_counts) {
        const RunOptions options{.num_threads = num_threads, .gradient_mode = mode};
        expect_same_bits(op, run_halves(device.runner, op, started, options), run(device.runner, op, started, options),
                         "halves, " + std::to_string(num_threads) + " threads");
      }
    if (checks == Checks::kFew) continue;
    check_offsets(run_of, whole);
    check_left_out(run_of, whole);
  }
}

std::vector<tsr_dtype> dtypes_of(const tsr_op& op) {
  if (op::find_op(op.kind)->is_float32_only) return {TSR_F32};
  return {TSR_F32, TSR_BF16, TSR_F16};
}

bool has_products(const tsr_op& op) {
  return op::find_op(op.kind)->has_products();
}

}  // namespace

double roundoff(tsr_dtype dtype) {
  if (dtype == TSR_BF16) return 0x1p-8;
  return dtype == TSR_F16 ? 0x1p-11 : 0;
}

bool uses_library(const CheckedDevice& device, const tsr_op& op) {
  return device.runner.is_cuda() && has_products(op);
}

Tolerance tolerance_of(const CheckedDevice& device, const tsr_op& op, const tsr_slot_spec& slot, Tolerance tolerance) {
  const bool is_cuda = device.runner.is_cuda();
  if (is_cuda) tolerance.relative *= kCudaTolerances;
  if (is_cuda && has_products(op)) tolerance.relative += kProductRoundoffs * roundoff(op.dtype);
  tolerance.relative += roundoff(slot.dtype);
  if (op.phase == TSR_PHASE_FORWARD) return tolerance;
  if (op.dtype == TSR_BF16 && (op.kind == TSR_OP_LOSS || op.kind == TSR_OP_HEAD_LOGITS))
    tolerance.relative += kBf16LossRoundoffs * roundoff(op.dtype);
  const auto slots = op::slots_of(op);
  const bool reads_rounded = std::any_of(slots.begin(), slots.end(), [](const tsr_slot_spec& s) {
    const uint32_t role = TSR_SLOT_ROLE(s.slot);
    return (role == TSR_ROLE_OUTPUT || role == TSR_ROLE_SAVED) && is_16_bit(s.dtype);
  });
  if (reads_rounded) tolerance.relative += kKeptRoundoffs * roundoff(op.dtype);
  return tolerance;
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
    if (double{actual[i]} == expected[i]) continue;  // infinities too
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

void expect_same_bits(const tsr_op& op, const Operands& actual, const Operands& expected, const std::string& what) {
  for (const auto& [slot, values] : expected.floats) {
    const auto found = actual.floats.find(slot);
    if (found == actual.floats.end()) continue;
    const std::vector<float>& others = found->second;
    ASSERT_EQ(others.size(), values.size()) << op_text(op) << " " << op::slot_name(slot);
    for (size_t i = 0; i < values.size(); ++i)
      if (std::memcmp(&others[i], &values[i], sizeof(float)) != 0) {
        ADD_FAILURE() << op_text(op) << " " << op::slot_name(slot) << "[" << i << "] of " << values.size() << " is "
                      << others[i] << ", not " << values[i] << ", bit for bit: " << what;
        break;
      }
  }
}

void check_forward(const CheckedDevice& device, tsr_op op, const Operands& operands, Tolerance tolerance,
                   Checks checks) {
  op.phase = TSR_PHASE_FORWARD;
  for (const tsr_dtype dtype : dtypes_of(op)) {
    op.dtype = dtype;
    check_forward_in_dtype(device, op, operands, tolerance, checks);
  }
}

void check_backward(const CheckedDevice& device, tsr_op op, const Operands& operands, Tolerance tolerance,
                    Checks checks) {
  for (const tsr_dtype dtype : dtypes_of(op)) {
    op.dtype = dtype;
    check_backward_in_dtype(device, op, operands, tolerance, checks);
  }
}

void check_reference(const tsr_op& op, const Operands& operands) {
  const Tensors tensors = widen(with_output_gradients(op, operands));
  for (const auto& [slot, gradient] : reference_backward(op, tensors, operands.tokens)) {
    const Tensor numerical = numerical_gradient(op, tensors, operands.tokens, slot);
    const std::vector<float> narrowed(gradient.begin(), gradient.end());
    expect_close(narrowed, numerical, {1e-6}, "reference of " + op::slot_name(slot));
  }
}

}  // namespace tessera::testing
