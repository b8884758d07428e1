// Sums of squares, clipping and optimizers, on every device: the bits of plain loops on the host, whatever the ranges
// and the alignment.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>

#include "support/device_ops.h"
#include "support/device_under_test.h"
#include "support/expect_error.h"
#include "tessera/operands.hpp"
#include "tessera/step_scalars.hpp"

namespace tessera::testing {
namespace {

using Ranges = std::vector<tsr_op_range>;

constexpr uint32_t kSource = TSR_SLOT(TSR_ROLE_SOURCE, 0), kValue = TSR_SLOT(TSR_ROLE_DESTINATION, 0);
constexpr uint32_t kM = TSR_SLOT(TSR_ROLE_STATE, 0), kV = TSR_SLOT(TSR_ROLE_STATE, 1);
constexpr uint32_t scalar(uint32_t index) {
  return TSR_SLOT(TSR_ROLE_SCALAR, index);
}

template <class T>
std::vector<std::byte> bytes_of(const T* values, size_t num_values) {
  std::vector<std::byte> bytes(num_values * sizeof(T));
  if (num_values > 0) std::memcpy(bytes.data(), values, bytes.size());
  return bytes;
}

// An op's operands by slot, of any type.
class StepOperands {
 public:
  template <class T>
  void set(uint32_t slot, const T& values) {
    bytes_[slot] = bytes_of(std::data(values), std::size(values));
  }
  template <class T>
  std::vector<T> get(uint32_t slot) const {
    const std::vector<std::byte>& bytes = bytes_.at(slot);
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  // Slots that are not set are not bound.
  void run(DeviceRunner& runner, const tsr_op& op, const Placement& placement = {},
           const std::map<uint32_t, uint32_t>& modes = {}) {
    std::vector<BoundOperand> bound;
    for (tsr_slot_spec slot : runner.describe(op)) {
      if (!bytes_.count(slot.slot)) continue;
      if (const auto mode = modes.find(slot.slot); mode != modes.end()) slot.mode = mode->second;
      bound.push_back({slot, bytes_[slot.slot]});
    }
    runner.run(op, bound, placement);
    for (const BoundOperand& operand : bound)
      bytes_[operand.slot.slot] = operand.bytes;
  }

 private:
  std::map<uint32_t, std::vector<std::byte>> bytes_;
};

// Of all exponents, zeros and subnormal numbers among them.
std::vector<float> floats_of_all_exponents(size_t num_elements, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(num_elements);
  for (float& value : values) {
    const uint32_t bits = random();
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) value = 0;
  }
  return values;
}

// With gaps, odd starts, an empty range, and more elements than a block of threads has.
Ranges ranges_of(uint64_t num_elements) {
  return {{0, num_elements / 2, 0.1, 1},
          {num_elements / 2 + 3, num_elements / 4, 0.0, 0.3},
          {num_elements - 9, 0, 0.3, 1},
          {num_elements - 7, 5, 0.2, 2},
          {num_elements - 1, 1, 0.5, 1}};
}

tsr_op with_ranges(tsr_op op, const Ranges& ranges) {
  op.ranges = ranges.data();
  op.num_ranges = ranges.size();
  return op;
}

constexpr Placement kPlacements[] = {{1, 0, false}, {1, 1, false},  {1, 2, false},
                                     {1, 3, false}, {1, -1, false}, {1, 0, true}};
std::string text(const Placement& placement) {
  return "offset " + std::to_string(placement.offset) + (placement.in_graph ? ", from a graph" : "");
}

class StepOps : public DeviceOpTest {
 protected:
  std::vector<int64_t> sum_of_squares(const std::vector<float>& source, const Ranges& ranges,
                                      const Placement& placement, const Accumulator& before = {},
                                      uint32_t mode = TSR_MODE_ADD) const {
    StepOperands operands;
    operands.set(kSource, source);
    operands.set(scalar(TSR_SCALAR_ACCUMULATOR), before);
    operands.run(runner(), with_ranges(make_op(TSR_OP_SUM_SQUARES, source.size()), ranges), placement,
                 {{scalar(TSR_SCALAR_ACCUMULATOR), mode}});
    return operands.get<int64_t>(scalar(TSR_SCALAR_ACCUMULATOR));
  }

  void check_squares(const std::vector<float>& source, const Ranges& ranges,
                     std::span<const Placement> placements = kPlacements) const {
    Accumulator expected{};
    for (const tsr_op_range& range : ranges)
      for (uint64_t i = 0; i < range.num_elements; ++i)
        accumulate_square(expected, source[range.offset + i]);
    carry(expected);
    const std::vector<int64_t> limbs(expected.begin(), expected.end());
    for (const Placement& placement : placements)
      EXPECT_EQ(sum_of_squares(source, ranges, placement), limbs) << source.size() << " elements, " << text(placement);
  }
};

TEST_P(StepOps, SumSquaresIsExactOverItsRanges) {
  for (const size_t num_elements : {40, 5000, 200003})
    for (const auto& source :
         {normal_floats(num_elements, 1, 1e-3f), floats_of_all_exponents(num_elements, 2),
          std::vector<float>(num_elements, 0x1.fffffep60f), std::vector<float>(num_elements, 0.0f)})
      check_squares(source, ranges_of(num_elements));
  check_squares(normal_floats(100, 3, 1), {});
  check_squares({3}, {{0, 1, 0, 1}});
}

// More than the 8,388,608 that a GPU takes at once.
TEST_P(StepOps, SumSquaresIsExactOverManyElements) {
  const std::vector<float> source = normal_floats(8'500'000, 4, 1e-3f);
  check_squares(source, {{3, source.size() - 3, 0, 1}}, std::array{Placement{2, 1, false}});
}

TEST_P(StepOps, SumSquaresCountsWhatIsNotFinite) {
  auto source = normal_floats(20000, 1, 1);
  source[0] = NAN;
  source[1] = INFINITY;
  source[9999] = -INFINITY;
  source[19998] = NAN;  // in no range
  check_squares(source, ranges_of(source.size()));
}

TEST_P(StepOps, SumSquaresAddsToOrReplacesTheAccumulator) {
  const std::vector<float> source = {3, 4};
  Accumulator before{};
  accumulate(before, 100.0);
  const auto value = [&](uint32_t mode) {
    const auto limbs = sum_of_squares(source, {{0, 2, 0, 1}}, {}, before, mode);
    return decode(ConstAccumulatorView(limbs.data(), TSR_ACCUMULATOR_LIMBS));
  };
  EXPECT_EQ(value(TSR_MODE_ADD), 125);
  before.fill(12345);
  EXPECT_EQ(value(TSR_MODE_WRITE), 25);
}

Squares with_run_words(const Accumulator& limbs, int64_t arrivals) {
  Squares squares{};
  std::ranges::copy(limbs, squares.begin());
  squares[TSR_WORD_ARRIVALS] = arrivals;
  squares[TSR_WORD_STOP] = 12345;  // nothing to CLIP
  squares[TSR_WORD_SAVE] = -1;
  return squares;
}

// With the loss scale unbound when it is 0. `arrivals` is the attribute.
void check_clip(DeviceRunner& runner, const Squares& squares, int64_t arrivals, double max_norm, double loss_scale) {
  tsr_op op = make_op(TSR_OP_CLIP, 0);
  op.attributes[TSR_ATTR_ARRIVALS] = static_cast<double>(arrivals);
  op.attributes[TSR_ATTR_MAX_NORM] = max_norm;
  StepOperands operands;
  operands.set(scalar(TSR_SCALAR_ACCUMULATOR), squares);
  operands.set(scalar(TSR_SCALAR_CLIP), std::vector<double>(3, -1));
  operands.set(scalar(TSR_SCALAR_STEP), std::vector<int64_t>{7});
  if (loss_scale > 0) operands.set(scalar(TSR_SCALAR_LOSS_SCALE), std::vector<double>{loss_scale});
  operands.run(runner, op);
  const ClipScalars expected = clip_scalars(squares, arrivals, max_norm, loss_scale > 0 ? loss_scale : 1);
  const auto actual = operands.get<double>(scalar(TSR_SCALAR_CLIP));
  const std::string what =
      op_text(op) + " of norm " + std::to_string(expected.norm) + ", loss scale " + std::to_string(loss_scale);
  EXPECT_EQ(actual[0], expected.coefficient) << what;
  EXPECT_EQ(actual[1], expected.ok ? 1 : 0) << what;
  if (std::isnan(expected.norm))
    EXPECT_TRUE(std::isnan(actual[2])) << what;
  else
    EXPECT_EQ(actual[2], expected.norm) << what;
  EXPECT_EQ(operands.get<int64_t>(scalar(TSR_SCALAR_STEP))[0], expected.ok ? 8 : 7) << what;
}

TEST_P(StepOps, ClipHasTheBitsOfTheHost) {
  std::vector<Accumulator> sums(6);
  accumulate(sums[1], 16.0);
  for (const float value : normal_floats(1000, 1, 1e-3f))
    accumulate_square(sums[2], value);
  accumulate(sums[3], ConstAccumulatorView(sums[2]));
  accumulate(sums[3], ConstAccumulatorView(sums[2]));  // as ranks are summed: not carried
  accumulate_square(sums[4], HUGE_VALF);
  accumulate_square(sums[5], std::numeric_limits<float>::max());
  for (const Accumulator& squares : sums)
    for (const double max_norm : {0.0, 1e-3, 1.0, 20.0})
      for (const double loss_scale : {0.0, 65536.0})
        check_clip(runner(), with_run_words(squares, 0), 0, max_norm, loss_scale);
}

TEST_P(StepOps, ClipRefusesASumThatIsNotThatOfAllRanks) {
  Accumulator squares{};
  accumulate(squares, 16.0);
  constexpr int64_t kMany = (int64_t{1} << 32) + 3;  // more than 32 bits hold
  EXPECT_FALSE(clip_scalars(with_run_words(squares, 2), 3, 1, 1).ok);
  EXPECT_FALSE(clip_scalars(with_run_words(squares, 3), kMany, 1, 1).ok);
  EXPECT_TRUE(clip_scalars(with_run_words(squares, 3), 3, 1, 1).ok);
  EXPECT_TRUE(clip_scalars(with_run_words(squares, 3), 0, 1, 1).ok);
  for (const int64_t arrived : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{-1}, kMany})
    for (const int64_t arrivals : {int64_t{0}, int64_t{1}, int64_t{3}, kMany})
      check_clip(runner(), with_run_words(squares, arrived), arrivals, 1.0, 0.0);
}

// An optimizer's operands.
struct Training {
  std::vector<float> value, gradient, m, v;
  double clip[3] = {0.25, 1, 0};
  int64_t step = 1;
  double lr = 1e-2;

  explicit Training(size_t num_elements)
      : value(normal_floats(num_elements, 1, 0.1f)),
        gradient(normal_floats(num_elements, 2, 1e-2f)),
        m(normal_floats(num_elements, 3, 1e-2f)),
        v(normal_floats(num_elements, 4, 1e-2f)) {
    for (float& x : v)
      x *= x;
  }

  void run(DeviceRunner& runner, const tsr_op& op, const Placement& placement = {}) {
    StepOperands operands;
    operands.set(kValue, value);
    operands.set(kSource, gradient);
    operands.set(kM, m);
    if (op.kind == TSR_OP_ADAMW) operands.set(kV, v);
    operands.set(scalar(TSR_SCALAR_CLIP), clip);
    operands.set(scalar(TSR_SCALAR_STEP), std::vector{step});
    operands.set(scalar(TSR_SCALAR_LR), std::vector{lr});
    operands.run(runner, op, placement);
    value = operands.get<float>(kValue);
    m = operands.get<float>(kM);
    if (op.kind == TSR_OP_ADAMW) v = operands.get<float>(kV);
  }

  void run_on_host(const tsr_op& op) {
    const OptimizerSettings settings(op);
    const OptimizerStep of_step = {lr, clip[0], step};
    for (uint64_t r = 0; r < op.num_ranges; ++r)
      for (uint64_t i = op.ranges[r].offset; i < op.ranges[r].offset + op.ranges[r].num_elements; ++i)
        if (op.kind == TSR_OP_ADAMW)
          update(adamw_factors(settings, of_step.scaled(op.ranges[r].lr_scale), op.ranges[r].weight_decay), i);
        else
          update(sgd_factors(settings, of_step.scaled(op.ranges[r].lr_scale), op.ranges[r].weight_decay), i);
  }

 private:
  void update(const AdamWFactors& f, uint64_t i) {
    const float g = f.coefficient * gradient[i];
    m[i] = f.beta1 * m[i] + f.one_minus_beta1 * g;
    v[i] = f.beta2 * v[i] + f.one_minus_beta2 * (g * g);
    value[i] = value[i] * f.decay - f.step_size * (m[i] / (std::sqrt(v[i]) * f.inverse_sqrt + f.epsilon));
  }
  void update(const SgdFactors& f, uint64_t i) {
    m[i] = f.momentum * m[i] + (gradient[i] * f.coefficient + f.weight_decay * value[i]);
    value[i] = value[i] - f.lr * m[i];
  }
};

void expect_same(const std::vector<float>& actual, const std::vector<float>& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_EQ(std::memcmp(&actual[i], &expected[i], sizeof(float)), 0)
        << what << "[" << i << "] of " << actual.size() << " is " << actual[i] << ", not " << expected[i];
}

tsr_op optimizer_op(uint32_t kind, uint64_t num_elements, const Ranges& ranges) {
  tsr_op op = with_ranges(make_op(kind, num_elements), ranges);
  op.attributes[TSR_ATTR_BETA1] = 0.9;
  op.attributes[TSR_ATTR_BETA2] = 0.999;
  op.attributes[TSR_ATTR_EPSILON] = 1e-8;
  return known_part(op);
}

TEST_P(StepOps, OptimizersHaveTheBitsOfPlainLoops) {
  for (const uint32_t kind : {TSR_OP_ADAMW, TSR_OP_SGD})
    for (const size_t num_elements : {40, 70003}) {
      const Ranges ranges = ranges_of(num_elements);
      const tsr_op op = optimizer_op(kind, num_elements, ranges);
      for (const Placement& placement : kPlacements) {
        Training actual(num_elements), expected(num_elements);
        for (const int64_t step : {1, 2, 1000, 123456789}) {
          actual.step = expected.step = step;
          actual.run(runner(), op, placement);
          expected.run_on_host(op);
          const std::string what = op_text(op) + " step " + std::to_string(step) + ", " + text(placement) + ", ";
          expect_same(actual.value, expected.value, what + "dst0");
          expect_same(actual.m, expected.m, what + "st0");
          expect_same(actual.v, expected.v, what + "st1");
        }
      }
    }
}

// torch.optim's formulas in float64.
TEST_P(StepOps, OptimizersFollowFloat64) {
  constexpr size_t kNumElements = 2000;
  const Ranges ranges = {{0, kNumElements, 0.1, 1}};
  for (const uint32_t kind : {TSR_OP_ADAMW, TSR_OP_SGD}) {
    const tsr_op op = optimizer_op(kind, kNumElements, ranges);
    Training actual(kNumElements);
    std::vector<double> value(actual.value.begin(), actual.value.end()), m(kNumElements), v(kNumElements);
    actual.m.assign(kNumElements, 0);
    actual.v.assign(kNumElements, 0);
    for (actual.step = 1; actual.step <= 8; ++actual.step) {
      actual.gradient = normal_floats(kNumElements, 100 + static_cast<uint32_t>(actual.step), 1e-2f);
      actual.run(runner(), op);
      const auto t = static_cast<double>(actual.step);
      for (size_t i = 0; i < kNumElements; ++i) {
        double g = actual.gradient[i] * actual.clip[0];
        if (kind == TSR_OP_SGD) {
          g += 0.1 * value[i];
          m[i] = 0.9 * m[i] + g;
          value[i] -= actual.lr * m[i];
          continue;
        }
        value[i] *= 1 - actual.lr * 0.1;
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.999 * v[i] + 0.001 * g * g;
        value[i] -= actual.lr / (1 - std::pow(0.9, t)) * m[i] / (std::sqrt(v[i] / (1 - std::pow(0.999, t))) + 1e-8);
      }
    }
    for (size_t i = 0; i < kNumElements; ++i)
      ASSERT_NEAR(actual.value[i], value[i], 2e-6) << op_text(op) << " " << i;
  }
}

TEST_P(StepOps, OptimizersDoNothingWhenTheStepIsNotOk) {
  const Ranges ranges = {{0, 2, 0.1, 1}};
  for (const uint32_t kind : {TSR_OP_ADAMW, TSR_OP_SGD}) {
    Training t(2);
    const Training before = t;
    t.step = 0;
    t.clip[1] = 0;
    t.gradient = {NAN, INFINITY};
    t.run(runner(), optimizer_op(kind, 2, ranges));
    EXPECT_EQ(t.value, before.value);
    EXPECT_EQ(t.m, before.m);
    EXPECT_EQ(t.v, before.v);
  }
}

TEST_P(StepOps, RefuseWhatTheyDoNotCompute) {
  expect_error([&] { runner().describe(make_op(TSR_OP_ADAMW, 4, TSR_BF16)); }, {"bfloat16", "float32"});
  expect_error([&] { runner().describe(make_op(TSR_OP_SUM_SQUARES, 4, TSR_F32, TSR_F16)); }, {"float16"});
  const Ranges beyond = {{2, 3, 0, 1}}, all = {{0, 4, 0, 1}};
  Training t(4);
  expect_error([&] { t.run(runner(), optimizer_op(TSR_OP_SGD, 4, beyond)); }, {"2:3", "4 elements"});
  expect_error([&] { sum_of_squares(t.value, beyond, {}); }, {"2:3", "4 elements"});
  t.step = 0;
  expect_error([&] { t.run(runner(), optimizer_op(TSR_OP_ADAMW, 4, all)); }, {"step count is 0"});
  StepOperands operands;
  operands.set(scalar(TSR_SCALAR_ACCUMULATOR), Squares{});
  operands.set(scalar(TSR_SCALAR_CLIP), std::vector<double>(3));
  operands.set(scalar(TSR_SCALAR_STEP), std::vector<int64_t>{7});
  expect_error(
      [&] {
        operands.run(runner(), make_op(TSR_OP_CLIP, 0), {}, {{scalar(TSR_SCALAR_STEP), TSR_MODE_WRITE}});
      },
      {"x3", "write"});
}

TESSERA_EVERY_DEVICE(StepOps);

}  // namespace
}  // namespace tessera::testing
