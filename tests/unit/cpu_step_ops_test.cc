// Sums of squares, clipping and optimizers of cpu-device against float64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cpu-device/kernels/step/optimizer.h"
#include "support/cpu_kernel.h"
#include "support/device_ops.h"
#include "support/expect_error.h"
#include "tessera/accumulator.hpp"

namespace tessera {
namespace {

using tessera::testing::expect_error;
using tessera::testing::make_op;
using tessera::testing::normal_floats;
using tessera::testing::run_op;

/// Ranges that leave gaps, with two weight decays.
std::vector<tsr_op_range> ranges_of(uint64_t num_elements) {
  return {
      {0, num_elements / 2, 0.1, 1}, {num_elements / 2 + 3, num_elements / 4, 0.0, 1}, {num_elements - 1, 1, 0.5, 1}};
}

tsr_op with_ranges(tsr_op op, const std::vector<tsr_op_range>& ranges) {
  op.ranges = ranges.data();
  op.num_ranges = ranges.size();
  return op;
}

Accumulator sum_of_squares(std::vector<float> source, const std::vector<tsr_op_range>& ranges, int num_threads) {
  Accumulator sum{};
  run_op(with_ranges(make_op(TSR_OP_SUM_SQUARES, source.size()), ranges), {source.data(), sum.data()}, num_threads);
  return sum;
}

TEST(SumSquaresOp, SumsItsRangesOnly) {
  const auto source = normal_floats(100000, 1, 1e-3f);
  const auto ranges = ranges_of(source.size());
  Accumulator expected{};
  for (const auto& range : ranges)
    for (uint64_t i = 0; i < range.num_elements; ++i)
      accumulate_square(expected, source[range.offset + i]);
  carry(expected);
  EXPECT_EQ(sum_of_squares(source, ranges, 1), expected);
  EXPECT_EQ(sum_of_squares(source, ranges, 2), expected);
  EXPECT_EQ(sum_of_squares(source, ranges, 3), expected);
  EXPECT_EQ(sum_of_squares(source, {}, 1), Accumulator{});
}

// A window of exponents ends at a power of two.
TEST(SumSquaresOp, CountsWhatIsAtTheEndOfAWindowOnce) {
  const std::vector<float> source = {1, 0x1p-19f, 0x1p-20f, 0x1p-30f, 0x1p-38f, 0x1p-39f};
  Accumulator expected{};
  for (const float value : source)
    accumulate_square(expected, value);
  carry(expected);
  EXPECT_EQ(sum_of_squares(source, {{0, source.size(), 0, 1}}, 1), expected);
}

TEST(SumSquaresOp, AddsToOrReplacesTheAccumulator) {
  std::vector<float> source = {3, 4};
  const std::vector<tsr_op_range> ranges = {{0, 2, 0, 1}};
  const tsr_op op = with_ranges(make_op(TSR_OP_SUM_SQUARES, 2), ranges);
  auto slots = cpu::describe_op(op);
  Accumulator sum{};
  accumulate(sum, 100.0);
  void* const pointers[] = {source.data(), sum.data()};
  const auto adds = cpu::prepare_op(op, slots, 1);
  adds->run(pointers);
  adds->run(pointers);
  EXPECT_EQ(decode(sum), 150);
  slots[1].mode = TSR_MODE_WRITE;
  cpu::prepare_op(op, slots, 1)->run(pointers);
  EXPECT_EQ(decode(sum), 25);
}

struct Clipped {
  double clip[3] = {-1, -1, -1};
  int64_t step = 7;
};

/// With the loss scale unbound when it is 0.
Clipped clip(const Accumulator& limbs, double max_norm, double loss_scale = 0) {
  Clipped result;
  Squares squares{};  // no arrivals, which are not compared
  std::ranges::copy(limbs, squares.begin());
  tsr_op op = make_op(TSR_OP_CLIP, 0);
  op.attributes[TSR_ATTR_MAX_NORM] = max_norm;
  run_op(op, {squares.data(), result.clip, &result.step, loss_scale > 0 ? &loss_scale : nullptr});
  return result;
}

TEST(ClipOp, ScalesOnlyNormsAboveTheMaximum) {
  Accumulator squares{};
  accumulate(squares, 16.0);
  for (int i = 0; i < 3; ++i)
    accumulate(squares, ConstAccumulatorView(squares));  // as ranks are summed: not carried
  const Clipped above = clip(squares, 2);
  EXPECT_DOUBLE_EQ(above.clip[2], std::sqrt(128.0));
  EXPECT_DOUBLE_EQ(above.clip[0], 2 / (std::sqrt(128.0) + 1e-6));
  EXPECT_EQ(above.clip[1], 1);
  EXPECT_EQ(above.step, 8);
  EXPECT_EQ(clip(squares, 20).clip[0], 1);
  EXPECT_EQ(clip(squares, 0).clip[0], 1);
  const Clipped nothing = clip(Accumulator{}, 1);
  EXPECT_EQ(nothing.clip[0], 1);
  EXPECT_EQ(nothing.clip[2], 0);
}

TEST(ClipOp, ThePowerOfTwoThatScaledTheLossChangesNoBit) {
  const auto gradient = normal_floats(1000, 1, 1e-3f);
  const auto clip_scaled = [&](float scale, double max_norm, double loss_scale) {
    Accumulator squares{};
    for (const float g : gradient)
      accumulate_square(squares, g * scale);
    carry(squares);
    return clip(squares, max_norm, loss_scale);
  };
  for (const double max_norm : {0.0, 1e-3, 1.0}) {
    const Clipped plain = clip_scaled(1, max_norm, 0);
    const Clipped scaled = clip_scaled(65536, max_norm, 65536);
    EXPECT_EQ(scaled.clip[0] * 65536, plain.clip[0]) << max_norm;
    EXPECT_EQ(scaled.clip[1], 1);
    EXPECT_EQ(scaled.clip[2], plain.clip[2]) << max_norm;
    EXPECT_EQ(scaled.step, plain.step);
  }
  Accumulator infinite{};
  accumulate_square(infinite, HUGE_VALF);
  EXPECT_EQ(clip(infinite, 1, 65536).clip[1], 0);
}

TEST(ClipOp, ANonFiniteGradientStopsTheStep) {
  for (const float bad : {HUGE_VALF, std::numeric_limits<float>::quiet_NaN()})
    for (const double max_norm : {0.0, 1.0}) {
      Accumulator squares{};
      accumulate_square(squares, 1.0f);
      accumulate_square(squares, bad);
      const Clipped result = clip(squares, max_norm);
      EXPECT_EQ(result.clip[0], 0);
      EXPECT_EQ(result.clip[1], 0);
      EXPECT_TRUE(std::isnan(result.clip[2]));
      EXPECT_EQ(result.step, 7);
    }
}

/// An optimizer's operands and scalars in type T; the reference computes in double, with torch.optim's formulas.
template <class T>
struct Training {
  std::vector<T> value, m, v;
  double clip[3] = {0.25, 1, 0};
  int64_t step = 0;
  double lr = 0;

  explicit Training(const std::vector<float>& initial)
      : value(initial.begin(), initial.end()), m(initial.size()), v(initial.size()) {}
};

constexpr double kBeta1 = 0.9, kBeta2 = 0.95, kEpsilon = 1e-8;
constexpr int kNumSteps = 8;
constexpr double lr_of(int64_t step) {
  return 1e-2 / static_cast<double>(step);
}

tsr_op optimizer_op(uint32_t kind, uint64_t num_elements, const std::vector<tsr_op_range>& ranges) {
  tsr_op op = with_ranges(make_op(kind, num_elements), ranges);
  op.attributes[TSR_ATTR_BETA1] = kBeta1;
  op.attributes[TSR_ATTR_BETA2] = kBeta2;
  op.attributes[TSR_ATTR_EPSILON] = kEpsilon;
  return op;
}

void run_optimizer(uint32_t kind, Training<float>& t, std::vector<float> gradient,
                   const std::vector<tsr_op_range>& ranges, int num_threads = 1) {
  std::vector<void*> pointers = {t.value.data(), gradient.data(), t.m.data()};
  if (kind == TSR_OP_ADAMW) pointers.push_back(t.v.data());
  pointers.insert(pointers.end(), {t.clip, &t.step, &t.lr});
  run_op(optimizer_op(kind, t.value.size(), ranges), pointers, num_threads);
}

void reference_adamw(Training<double>& t, size_t i, double gradient, double weight_decay) {
  const double g = gradient * t.clip[0], n = static_cast<double>(t.step);
  t.value[i] *= 1 - t.lr * weight_decay;
  t.m[i] = kBeta1 * t.m[i] + (1 - kBeta1) * g;
  t.v[i] = kBeta2 * t.v[i] + (1 - kBeta2) * g * g;
  const double denominator = std::sqrt(t.v[i]) / std::sqrt(1 - std::pow(kBeta2, n)) + kEpsilon;
  t.value[i] -= t.lr / (1 - std::pow(kBeta1, n)) * t.m[i] / denominator;
}

void reference_sgd(Training<double>& t, size_t i, double gradient, double weight_decay) {
  const double g = gradient * t.clip[0] + weight_decay * t.value[i];
  t.m[i] = t.step == 1 ? g : kBeta1 * t.m[i] + g;
  t.value[i] -= t.lr * t.m[i];
}

void expect_follows(uint32_t kind, void (*reference)(Training<double>&, size_t, double, double)) {
  constexpr size_t kNumElements = 40000;
  const auto initial = normal_floats(kNumElements, 1, 0.1f);
  const auto ranges = ranges_of(kNumElements);
  Training<float> actual(initial), threaded(initial);
  Training<double> expected(initial);
  for (int step = 1; step <= kNumSteps; ++step) {
    const auto gradient = normal_floats(kNumElements, 100 + static_cast<uint32_t>(step), 1e-2f);
    actual.step = threaded.step = expected.step = step;
    actual.lr = threaded.lr = expected.lr = lr_of(step);
    run_optimizer(kind, actual, gradient, ranges);
    run_optimizer(kind, threaded, gradient, ranges, 2);
    for (const auto& range : ranges)
      for (uint64_t i = range.offset; i < range.offset + range.num_elements; ++i)
        reference(expected, i, gradient[i], range.weight_decay);
  }
  EXPECT_EQ(threaded.value, actual.value);
  for (size_t i = 0; i < kNumElements; ++i) {
    ASSERT_NEAR(actual.value[i], expected.value[i], 1e-6) << i;
    ASSERT_NEAR(actual.m[i], expected.m[i], 1e-6) << i;
  }
  EXPECT_EQ(actual.value[kNumElements / 2], initial[kNumElements / 2]) << "lies in no range";
  EXPECT_NE(actual.value[0], initial[0]);
}

TEST(AdamWOp, FollowsFloat64) {
  expect_follows(TSR_OP_ADAMW, reference_adamw);
}

TEST(SgdOp, FollowsFloat64) {
  expect_follows(TSR_OP_SGD, reference_sgd);
}

TEST(AdamWOp, TheFirstStepIsTheSignOfTheGradient) {  // m / sqrt(v) = g / |g|
  Training<float> t({1, 1, 1});
  t.step = 1;
  t.lr = 0.125;
  run_optimizer(TSR_OP_ADAMW, t, {4, -0.5f, 0}, {{0, 3, 0, 1}});
  EXPECT_NEAR(t.value[0], 0.875, 1e-6);
  EXPECT_NEAR(t.value[1], 1.125, 1e-6);
  EXPECT_EQ(t.value[2], 1);
}

TEST(Optimizers, DoNothingWhenTheStepIsNotOk) {
  for (const uint32_t kind : {TSR_OP_ADAMW, TSR_OP_SGD}) {
    Training<float> t({1, 2});
    t.step = 0;
    t.lr = 1;
    t.clip[1] = 0;
    run_optimizer(kind, t, {NAN, HUGE_VALF}, {{0, 2, 0.1, 1}});
    EXPECT_EQ(t.value, (std::vector<float>{1, 2}));
    EXPECT_EQ(t.m, (std::vector<float>{0, 0}));
  }
}

/// A step over elements [offset, offset + n) alone has the bits of the step over all.
TEST(Optimizers, ResultsDoNotDependOnOffsetLengthOrInstructions) {
  constexpr size_t kNumElements = 300;
  const auto value = normal_floats(kNumElements, 1, 0.1f), gradient = normal_floats(kNumElements, 2, 0.1f);
  const auto m = normal_floats(kNumElements, 3, 0.1f);
  auto v = normal_floats(kNumElements, 4, 0.1f);
  for (float& x : v)
    x *= x;
  const AdamWFactors adamw_factors = {0.999f, 0.7f, 0.9f, 0.1f, 0.95f, 0.05f, 1e-3f, 3.0f, 1e-8f};
  const SgdFactors sgd_factors = {0.1f, 0.7f, 0.9f, 1e-3f};
  const auto update = [&](cpu::SimdLevel level, size_t begin, size_t end) {
    const auto piece = [&](const std::vector<float>& x) {
      return std::vector<float>(x.begin() + static_cast<long>(begin), x.begin() + static_cast<long>(end));
    };
    auto p = piece(value), new_m = piece(m), new_v = piece(v), q = piece(value), sgd_m = piece(m);
    TESSERA_SIMD_AT(level, adamw)
    (p.data(), gradient.data() + begin, new_m.data(), new_v.data(), p.size(), adamw_factors);
    TESSERA_SIMD_AT(level, sgd)(q.data(), gradient.data() + begin, sgd_m.data(), q.size(), sgd_factors);
    return std::vector{p, new_m, new_v, q, sgd_m};
  };
  const auto whole = update(cpu::SimdLevel::kBaseline, 0, kNumElements);
  for (const auto level : {cpu::SimdLevel::kBaseline, cpu::SimdLevel::kV3, cpu::SimdLevel::kV4}) {
    if (level > cpu::simd_level()) continue;
    for (size_t offset = 0; offset <= 17; ++offset)
      for (const size_t num_elements : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 65, 100, 250}) {
        const auto part = update(level, offset, offset + num_elements);
        for (size_t k = 0; k < part.size(); ++k)
          for (size_t i = 0; i < num_elements; ++i)
            ASSERT_EQ(part[k][i], whole[k][offset + i]) << "level " << static_cast<int>(level) << " operand " << k;
      }
  }
}

TEST(StepOps, RefuseWhatTheyDoNotCompute) {
  expect_error([] { cpu::describe_op(make_op(TSR_OP_ADAMW, 4, TSR_BF16)); }, {"bfloat16", "float32"});
  expect_error([] { cpu::describe_op(make_op(TSR_OP_SUM_SQUARES, 4, TSR_F32, TSR_F16)); }, {"float16"});
  const std::vector<tsr_op_range> beyond = {{2, 3, 0, 1}};
  const tsr_op op = optimizer_op(TSR_OP_SGD, 4, beyond);
  expect_error([&] { cpu::prepare_op(op, cpu::describe_op(op), 1); }, {"2:3", "4 elements"});
  Training<float> t({1});
  t.step = 0;
  expect_error([&] { run_optimizer(TSR_OP_ADAMW, t, {1}, {{0, 1, 0, 1}}); }, {"step count is 0"});
  const std::vector<tsr_op_range> all = {{0, 4, 0, 1}};
  const tsr_op adamw = optimizer_op(TSR_OP_ADAMW, 4, all);
  auto slots = cpu::describe_op(adamw);
  slots[2].mode = TSR_MODE_WRITE;
  expect_error([&] { cpu::prepare_op(adamw, slots, 1); }, {"st0", "write"});
}

}  // namespace
}  // namespace tessera
