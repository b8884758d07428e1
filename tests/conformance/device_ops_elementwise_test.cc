// Elementwise ops, on every device: the same bits everywhere, whatever count and alignment.
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "support/device_ops.h"
#include "support/device_under_test.h"
#include "support/typed_buffer.h"
#include "tessera/operands.hpp"

namespace tessera::testing {
namespace {

using Bytes = std::vector<std::byte>;

// Any bits: NaN, infinities and subnormal numbers among them.
Bytes random_bytes(tsr_dtype dtype, uint64_t num_elements, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes(TSR_NUM_BYTES(dtype, num_elements));
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>(random());
  return bytes;
}

double element(tsr_dtype dtype, const Bytes& bytes, uint64_t i) {
  return get_element(dtype, bytes.data() + TSR_NUM_BYTES(dtype, i));
}

// Element i of a result, of the elements i of dst as it was and of src.
using Formula = std::function<double(double dst, double src)>;

void expect_elements(const tsr_op& op, tsr_dtype dtype, const Bytes& actual, const Bytes& dst, tsr_dtype source_dtype,
                     const Bytes& src, const Formula& formula, const std::string& what) {
  std::byte expected[8];
  for (uint64_t i = 0; TSR_NUM_BYTES(dtype, i) < actual.size(); ++i) {
    const double value = formula(element(dtype, dst, i), src.empty() ? 0 : element(source_dtype, src, i));
    put_element(dtype, expected, value);
    const double result = element(dtype, actual, i);
    if (std::isnan(result) && std::isnan(value)) continue;
    ASSERT_EQ(std::memcmp(&actual[TSR_NUM_BYTES(dtype, i)], expected, TSR_NUM_BYTES(dtype, 1)), 0)
        << op_text(op) << " element " << i << " is " << result << ", not " << get_element(dtype, expected) << ", "
        << what;
  }
}

class ElementwiseOps : public DeviceOpTest {
 protected:
  // `op` with every count and alignment; `mode` is that of dst.
  void check(tsr_op op, uint32_t mode, const Formula& formula) const {
    for (const uint64_t num_elements : {0, 1, 3, 8, 1000, 70001})
      for (const int offset : {0, 1, 2, -1})
        for (const bool in_graph : {false, true}) {
          op.dims[TSR_DIM_ELEMENTS] = static_cast<int64_t>(num_elements);
          const std::string what = std::to_string(num_elements) + " elements, offset " + std::to_string(offset) +
                                   ", mode " + std::to_string(mode) + (in_graph ? ", from a graph" : "");
          check_run(op, mode, formula, {1, offset, in_graph}, what);
        }
  }

 private:
  void check_run(const tsr_op& op, uint32_t mode, const Formula& formula, const Placement& placement,
                 const std::string& what) const {
    std::vector<BoundOperand> operands;
    for (tsr_slot_spec slot : runner().describe(op)) {
      const bool is_source = TSR_SLOT_ROLE(slot.slot) == TSR_ROLE_SOURCE;
      if (!is_source) slot.mode = mode;
      operands.push_back({slot, random_bytes(slot.dtype, slot.num_elements, slot.slot)});
    }
    const Bytes dst = operands.back().bytes, src = operands.size() > 1 ? operands[0].bytes : Bytes{};
    runner().run(op, operands, placement);
    expect_elements(op, operands.back().slot.dtype, operands.back().bytes, dst, op.dtype, src, formula, what);
  }
};

// In float32 for narrower values, as device and host round them when they are written.
double sum(double a, double b) {
  return static_cast<float>(a) + static_cast<float>(b);
}

TEST_P(ElementwiseOps, CopyTakesAnyDtype) {
  for (const tsr_dtype dtype : {TSR_I8, TSR_BF16, TSR_I32, TSR_F32, TSR_F64})
    check(make_op(TSR_OP_COPY, 0, dtype), TSR_MODE_WRITE, [](double, double src) { return src; });
}

TEST_P(ElementwiseOps, CastRoundsToNearestEven) {
  for (const auto& [from, to] : {std::pair{TSR_F32, TSR_BF16},
                                 {TSR_F32, TSR_F16},
                                 {TSR_F32, TSR_F64},
                                 {TSR_BF16, TSR_F32},
                                 {TSR_F16, TSR_F32},
                                 {TSR_F64, TSR_F32}})
    check(make_op(TSR_OP_CAST, 0, from, to), TSR_MODE_WRITE, [](double, double src) { return src; });
}

// Every bit pattern of a half, and the floats around what rounds up, down and to even.
TEST_P(ElementwiseOps, CastKnowsEveryHalf) {
  constexpr uint64_t kNumHalves = 1 << 16;
  for (const tsr_dtype half : {TSR_BF16, TSR_F16}) {
    std::vector<BoundOperand> widening, narrowing;
    for (const tsr_slot_spec& slot : runner().describe(make_op(TSR_OP_CAST, kNumHalves, half, TSR_F32)))
      widening.push_back({slot, Bytes(TSR_NUM_BYTES(slot.dtype, kNumHalves))});
    for (uint64_t i = 0; i < kNumHalves; ++i)
      std::memcpy(&widening[0].bytes[2 * i], &i, 2);  // the lowest bytes
    runner().run(make_op(TSR_OP_CAST, kNumHalves, half, TSR_F32), widening);
    expect_elements(
        make_op(TSR_OP_CAST, kNumHalves, half, TSR_F32), TSR_F32, widening[1].bytes, widening[1].bytes, half,
        widening[0].bytes, [](double, double src) { return src; }, "widening");
    const tsr_op op = make_op(TSR_OP_CAST, 3 * kNumHalves, TSR_F32, half);
    for (const tsr_slot_spec& slot : runner().describe(op))
      narrowing.push_back({slot, Bytes(TSR_NUM_BYTES(slot.dtype, 3 * kNumHalves))});
    for (uint64_t i = 0; i < kNumHalves; ++i) {
      const auto value = static_cast<float>(element(half, widening[0].bytes, i));
      const auto next = static_cast<float>(element(half, widening[0].bytes, (i + 1) % kNumHalves));
      const float middle = std::isfinite(next) ? value + (next - value) / 2 : value;
      const float near[] = {middle, std::nextafter(middle, INFINITY), std::nextafter(middle, -INFINITY)};
      std::memcpy(&narrowing[0].bytes[12 * i], near, sizeof near);
    }
    runner().run(op, narrowing);
    expect_elements(
        op, half, narrowing[1].bytes, narrowing[1].bytes, TSR_F32, narrowing[0].bytes,
        [](double, double src) { return src; }, "narrowing");
  }
}

TEST_P(ElementwiseOps, AddIntoAddsInFloat32AndRoundsOnce) {
  for (const tsr_dtype dtype : {TSR_F32, TSR_BF16, TSR_F16})
    check(make_op(TSR_OP_ADD_INTO, 0, dtype), TSR_MODE_ADD, sum);
  check(make_op(TSR_OP_ADD_INTO, 0, TSR_F64), TSR_MODE_ADD, std::plus<double>());
}

TEST_P(ElementwiseOps, AddIntoARangeThatIsNotWrittenIsACopy) {
  for (const tsr_dtype dtype : {TSR_F32, TSR_BF16, TSR_F16, TSR_F64})
    check(make_op(TSR_OP_ADD_INTO, 0, dtype), TSR_MODE_WRITE, [](double, double src) { return src; });
}

TEST_P(ElementwiseOps, AddIntoOfIntegersWraps) {
  const tsr_op op = make_op(TSR_OP_ADD_INTO, 3, TSR_I64);
  std::vector<BoundOperand> operands;
  for (const tsr_slot_spec& slot : runner().describe(op))
    operands.push_back({slot, Bytes(24)});
  const int64_t src[] = {1, 7, int64_t{1} << 60}, expected[] = {INT64_MIN, 2, (int64_t{1} << 60) + 3};
  int64_t dst[] = {INT64_MAX, -5, 3};
  std::memcpy(operands[0].bytes.data(), src, sizeof src);
  std::memcpy(operands[1].bytes.data(), dst, sizeof dst);
  runner().run(op, operands);
  std::memcpy(dst, operands[1].bytes.data(), sizeof dst);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(dst[i], expected[i]);
}

TEST_P(ElementwiseOps, ScaleMultipliesInPlace) {
  for (const double factor : {0.5, 1.0 / 3})
    for (const tsr_dtype dtype : {TSR_F32, TSR_BF16, TSR_F16, TSR_F64}) {
      tsr_op op = make_op(TSR_OP_SCALE, 0, dtype);
      op.attributes[TSR_ATTR_SCALE] = factor;
      check(op, TSR_MODE_ADD, [&](double dst, double) {
        return dtype == TSR_F64 ? dst * factor : double{static_cast<float>(dst) * static_cast<float>(factor)};
      });
    }
}

TEST_P(ElementwiseOps, ZeroTakesManyDestinations) {
  for (const int offset : {0, 1, -1}) {
    std::vector<BoundOperand> operands;
    const auto add = [&](tsr_dtype dtype, uint64_t num_elements) {
      const auto index = static_cast<uint32_t>(operands.size());
      const tsr_slot_spec slot{TSR_SLOT(TSR_ROLE_DESTINATION, index), TSR_MODE_WRITE, dtype, 0, num_elements};
      operands.push_back({slot, random_bytes(dtype, num_elements, index)});
    };
    add(TSR_F32, 3);
    add(TSR_BF16, 5);
    add(TSR_I64, 20);
    add(TSR_F32, 70001);
    add(TSR_I8, 13);
    runner().run(make_op(TSR_OP_ZERO, 70001), operands, {.offset = offset});
    for (const BoundOperand& operand : operands)
      EXPECT_EQ(operand.bytes, Bytes(operand.bytes.size())) << op::slot_name(operand.slot.slot);
  }
}

TESSERA_EVERY_DEVICE(ElementwiseOps);

}  // namespace
}  // namespace tessera::testing
