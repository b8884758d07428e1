// Numbers are such that results are exact, but for those of CLIP and optimizers. These have the bits of
// tessera/step_scalars.hpp on every device (TSR-DEVICE-011): it and this source are compiled without fused
// multiply-adds.

#include "exec/self_test/test_ops.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "program/program.h"
#include "tessera/accumulator.hpp"
#include "tessera/step_scalars.hpp"

namespace tessera::host {
namespace {

constexpr uint32_t kFirstMoment = TSR_SLOT(TSR_ROLE_STATE, 0), kSecondMoment = TSR_SLOT(TSR_ROLE_STATE, 1);

constexpr uint32_t scalar(uint32_t index) {
  return TSR_SLOT(TSR_ROLE_SCALAR, index);
}

TestedOperand unchanged(uint32_t slot, tsr_dtype dtype, const std::vector<double>& numbers) {
  return {slot, TSR_MODE_READ, dtype, numbers, numbers};
}

template <class Numbers>
std::vector<double> doubles(const Numbers& numbers) {
  return {numbers.begin(), numbers.end()};
}

tsr_op make_op(uint32_t kind, int64_t num_elements) {
  tsr_op op{};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.dtype = op.destination_dtype = TSR_F32;
  op.dims[TSR_DIM_ELEMENTS] = num_elements;
  return op;
}

void test_elementwise(TestedDevice& tested) {
  const double tiny = std::ldexp(1.0, -140);  // a denormal
  tested.op("add", make_op(TSR_OP_ADD_INTO, 4),
            {unchanged(kSource, TSR_F32, {1, 2, 3, tiny}),
             {kDestination, TSR_MODE_ADD, TSR_F32, {10, 20, 30, 2 * tiny}, {11, 22, 33, 3 * tiny}}});
  tsr_op cast = make_op(TSR_OP_CAST, 3);
  cast.destination_dtype = TSR_BF16;
  tested.op(
      "cast", cast,
      {unchanged(kSource, TSR_F32, {1, -2, 257}), {kDestination, TSR_MODE_WRITE, TSR_BF16, {0, 0, 0}, {1, -2, 256}}});
}

/// An op of a segment, on [2, 3]. Not a product: a library for those takes longer to start than all the rest.
void test_segment(TestedDevice& tested) {
  tsr_op op = make_op(TSR_OP_ADD, 0);
  op.phase = TSR_PHASE_FORWARD;
  op.gradient_dtype = TSR_F32;
  op.dims[TSR_DIM_BATCH] = 1, op.dims[TSR_DIM_SEQ] = 2, op.dims[TSR_DIM_EMBED] = 3;
  tested.op("add of values", op,
            {unchanged(TSR_SLOT(TSR_ROLE_PARAMETER, 0), TSR_F32, {100, 200, 300}),
             unchanged(TSR_SLOT(TSR_ROLE_INPUT, 0), TSR_F32, {1, 2, 3, 4, 5, 6}),
             unchanged(TSR_SLOT(TSR_ROLE_INPUT, 1), TSR_F32, {10, 20, 30, 40, 50, 60}),
             {TSR_SLOT(TSR_ROLE_OUTPUT, 0),
              TSR_MODE_WRITE,
              TSR_F32,
              std::vector<double>(6),
              {111, 222, 333, 144, 255, 366}}});
}

void test_squares(TestedDevice& tested) {
  tsr_op op = make_op(TSR_OP_SUM_SQUARES, 3);
  const tsr_op_range all{0, 3, 0, 1};
  op.ranges = &all;
  op.num_ranges = 1;
  Accumulator sum{};
  for (const float value : {1.0f, 2.0f, 3.0f})
    accumulate_square(sum, value);
  const std::vector<double> zeros(TSR_ACCUMULATOR_LIMBS);
  tested.op("sum_squares", op,
            {unchanged(kSource, TSR_F32, {1, 2, 3}),
             {scalar(TSR_SCALAR_ACCUMULATOR), TSR_MODE_ADD, TSR_I64, zeros, doubles(sum)}});
}

// ---- CLIP ----------------------------------------------------------------------------------------------------------

/// The squares of two ranks, of which that many have arrived, added as ranks add them. A loss scale of 0: none.
void test_clip(TestedDevice& tested, int64_t num_arrived, double max_norm, double loss_scale) {
  constexpr int64_t kStepBefore = 7, kNumRanks = 2;
  Accumulator limbs{};
  for (const float value : {1.0f, 2.0f, 0.75f})
    accumulate_square(limbs, value);
  accumulate(limbs, ConstAccumulatorView(Accumulator(limbs)));
  Squares squares{};
  std::ranges::copy(limbs, squares.begin());
  squares[TSR_WORD_ARRIVALS] = num_arrived;
  tsr_op op = make_op(TSR_OP_CLIP, 0);
  op.attributes[TSR_ATTR_MAX_NORM] = max_norm;
  op.attributes[TSR_ATTR_ARRIVALS] = kNumRanks;
  const ClipScalars clip = clip_scalars(squares, kNumRanks, max_norm, loss_scale ? loss_scale : 1);
  const auto step_after = static_cast<double>(kStepBefore + (clip.ok ? 1 : 0));
  std::vector<TestedOperand> operands = {
      unchanged(scalar(TSR_SCALAR_ACCUMULATOR), TSR_I64, doubles(squares)),
      {scalar(TSR_SCALAR_CLIP),
       TSR_MODE_WRITE,
       TSR_F64,
       {-1, -1, -1},
       {clip.coefficient, clip.ok ? 1.0 : 0.0, clip.norm}},
      {scalar(TSR_SCALAR_STEP), TSR_MODE_ADD, TSR_I64, {static_cast<double>(kStepBefore)}, {step_after}}};
  if (loss_scale) operands.push_back(unchanged(scalar(TSR_SCALAR_LOSS_SCALE), TSR_F64, {loss_scale}));
  tested.op("clip", op, operands);
}

// ---- optimizers ----------------------------------------------------------------------------------------------------

/// What an optimizer updates, and with what.
struct Update {
  std::vector<float> value = {0.5f, -1.25f, 3, 0.1f, -0.2f, 7}, gradient = {0.3f, 0.7f, -1.1f, 5, 0.01f, -0.9f};
  std::vector<float> m = {0.02f, -0.5f, 0.3f, 1, 0, 0.07f}, v = {0.04f, 0.5f, 0.9f, 1, 0, 0.003f};
};

/// The formulas of step_scalars.hpp, for one element.
void update_element(const AdamWFactors& f, Update& u, uint64_t i) {
  const float g = f.coefficient * u.gradient[i];
  u.m[i] = f.beta1 * u.m[i] + f.one_minus_beta1 * g;
  u.v[i] = f.beta2 * u.v[i] + f.one_minus_beta2 * (g * g);
  u.value[i] = u.value[i] * f.decay - f.step_size * (u.m[i] / (std::sqrt(u.v[i]) * f.inverse_sqrt + f.epsilon));
}
void update_element(const SgdFactors& f, Update& u, uint64_t i) {
  u.m[i] = f.momentum * u.m[i] + (u.gradient[i] * f.coefficient + f.weight_decay * u.value[i]);
  u.value[i] = u.value[i] - f.lr * u.m[i];
}

void update_on_host(const tsr_op& op, const OptimizerStep& step, Update& update) {
  const OptimizerSettings settings(op);
  for (uint64_t r = 0; r < op.num_ranges; ++r) {
    const tsr_op_range& range = op.ranges[r];
    const OptimizerStep of_range = step.scaled(range.lr_scale);
    for (uint64_t i = range.offset; i < range.offset + range.num_elements; ++i)
      if (op.kind == TSR_OP_ADAMW)
        update_element(adamw_factors(settings, of_range, range.weight_decay), update, i);
      else
        update_element(sgd_factors(settings, of_range, range.weight_decay), update, i);
  }
}

/// Two ranges, one with weight decay and one with a learning rate of its own, and an element in neither. A step that
/// CLIP has refused changes nothing.
void test_optimizer(TestedDevice& tested, const char* name, tsr_op op, bool is_ok) {
  const tsr_op_range ranges[] = {{0, 3, 0.1, 1}, {4, 2, 0, 0.5}};
  op.ranges = ranges;
  op.num_ranges = std::size(ranges);
  const OptimizerStep step = {0.01, 0.25, 3};
  const Update before;
  Update after;
  if (is_ok) update_on_host(op, step, after);
  std::vector<TestedOperand> operands = {
      {kDestination, TSR_MODE_ADD, TSR_F32, doubles(before.value), doubles(after.value)},
      unchanged(kSource, TSR_F32, doubles(before.gradient)),
      {kFirstMoment, TSR_MODE_ADD, TSR_F32, doubles(before.m), doubles(after.m)},
      unchanged(scalar(TSR_SCALAR_CLIP), TSR_F64, {step.coefficient, is_ok ? 1.0 : 0.0, 4}),
      unchanged(scalar(TSR_SCALAR_STEP), TSR_I64, {static_cast<double>(step.step)}),
      unchanged(scalar(TSR_SCALAR_LR), TSR_F64, {step.lr})};
  if (op.kind == TSR_OP_ADAMW)
    operands.push_back({kSecondMoment, TSR_MODE_ADD, TSR_F32, doubles(before.v), doubles(after.v)});
  tested.op(name, op, operands);
}

void test_optimizers(TestedDevice& tested) {
  tsr_op adamw = make_op(TSR_OP_ADAMW, 6), sgd = make_op(TSR_OP_SGD, 6);
  adamw.attributes[TSR_ATTR_BETA1] = sgd.attributes[TSR_ATTR_BETA1] = 0.9;
  adamw.attributes[TSR_ATTR_BETA2] = 0.95;
  adamw.attributes[TSR_ATTR_EPSILON] = 1e-8;
  for (const bool is_ok : {true, false}) {
    test_optimizer(tested, "adamw", adamw, is_ok);
    test_optimizer(tested, "sgd", sgd, is_ok);
  }
}

}  // namespace

void test_ops(TestedDevice& tested) {
  test_elementwise(tested);
  test_segment(tested);
  test_squares(tested);
  test_clip(tested, 2, 1, 0);       // limits the norm
  test_clip(tested, 2, 100, 1024);  // does not, and takes the loss scale out again
  test_clip(tested, 1, 1, 0);       // lacks a rank
  test_optimizers(tested);
}

}  // namespace tessera::host
