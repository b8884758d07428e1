// Elementwise ops of cpu-device: values against float64, and the same bits at every offset, length and instruction set.
#include "cpu-device/kernels/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "support/cpu_kernel.h"
#include "support/device_ops.h"
#include "support/expect_error.h"

namespace tessera {
namespace {

using cpu::SimdLevel;
using tessera::testing::expect_error;
using tessera::testing::make_op;
using tessera::testing::run_op;

std::vector<SimdLevel> levels() {
  std::vector<SimdLevel> result;
  for (const auto level : {SimdLevel::kBaseline, SimdLevel::kV3, SimdLevel::kV4})
    if (level <= cpu::simd_level()) result.push_back(level);
  return result;
}

/// A binary format of 1 sign bit, `exponent_bits` and `mantissa_bits`.
struct Format {
  int exponent_bits, mantissa_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  bool is_special(uint16_t bits) const { return (bits >> mantissa_bits & exponent_mask()) == exponent_mask(); }
  bool is_nan(uint16_t bits) const { return is_special(bits) && (bits & ((1 << mantissa_bits) - 1)) != 0; }
  double value(uint16_t bits) const {
    const int exponent = bits >> mantissa_bits & exponent_mask(), mantissa = bits & ((1 << mantissa_bits) - 1);
    const double sign = bits >> 15 ? -1 : 1;
    if (is_special(bits)) return sign * HUGE_VAL;
    const int hidden = exponent == 0 ? 0 : 1 << mantissa_bits;
    return sign * std::ldexp(hidden + mantissa, std::max(exponent, 1) - bias() - mantissa_bits);
  }
  /// `x` rounded to nearest even.
  double round(double x) const {
    if (x == 0 || std::isinf(x)) return x;
    const int exponent = std::max(std::ilogb(x), 1 - bias());
    const double unit = std::ldexp(1.0, exponent - mantissa_bits);
    const double rounded = std::nearbyint(x / unit) * unit;
    return std::fabs(rounded) >= std::ldexp(1.0, bias() + 1) ? std::copysign(HUGE_VAL, x) : rounded;
  }

 private:
  int exponent_mask() const { return (1 << exponent_bits) - 1; }
};
constexpr Format kF16{5, 10}, kBf16{8, 7};

std::vector<float> interesting_floats(size_t num_elements) {
  std::mt19937 random(1);
  std::vector<float> values = {0.0f,
                               -0.0f,
                               1.0f,
                               65504.0f,
                               65519.9f,
                               65520.0f,
                               -65520.0f,
                               HUGE_VALF,
                               -HUGE_VALF,
                               0x1p-14f,
                               0x1p-24f,
                               0x1p-25f,
                               0x1.000002p-25f,
                               0x1.8p-24f,
                               0x1.ffcp-15f,
                               0x1.ffep-15f,
                               0x1.fffffep127f,
                               0x1.fep127f,
                               0x1.ffp127f,
                               0x1p-126f,
                               0x1p-133f,
                               0x1p-134f,
                               0x1p-149f};
  while (values.size() < num_elements) {
    uint32_t bits = random();
    if (values.size() % 2 != 0) bits = (bits & 0x80ffffffu) | (48 + random() % 32) << 24;  // near the range of float16
    float value;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isnan(value)) values.push_back(value);
  }
  return values;
}

void expect_narrowing(const Format& format, tsr_dtype dtype) {
  const auto source = interesting_floats(20000);
  std::vector<uint16_t> result(source.size());
  run_op(make_op(TSR_OP_CAST, source.size(), TSR_F32, dtype), {const_cast<float*>(source.data()), result.data()});
  for (size_t i = 0; i < source.size(); ++i) {
    ASSERT_EQ(format.value(result[i]), format.round(source[i])) << source[i];
    ASSERT_FALSE(format.is_nan(result[i])) << source[i];
    ASSERT_EQ(result[i] >> 15 != 0, std::signbit(source[i])) << source[i];
  }
}

void expect_widening(const Format& format, tsr_dtype dtype) {
  std::vector<uint16_t> source(1 << 16), back(1 << 16);
  for (size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<uint16_t>(i);
  std::vector<float> result(source.size());
  run_op(make_op(TSR_OP_CAST, source.size(), dtype, TSR_F32), {source.data(), result.data()});
  run_op(make_op(TSR_OP_CAST, source.size(), TSR_F32, dtype), {result.data(), back.data()});
  for (size_t i = 0; i < source.size(); ++i) {
    if (format.is_nan(source[i])) {
      ASSERT_TRUE(std::isnan(result[i])) << i;
      ASSERT_TRUE(format.is_nan(back[i])) << i;
    } else {
      ASSERT_EQ(result[i], format.value(source[i])) << i;
      ASSERT_EQ(back[i], source[i]) << i;
    }
  }
}

TEST(CpuElementwise, CastsRoundToNearestEven) {
  expect_narrowing(kBf16, TSR_BF16);
  expect_narrowing(kF16, TSR_F16);
}

TEST(CpuElementwise, CastsOfEveryHalfAreExactAndComeBack) {
  expect_widening(kBf16, TSR_BF16);
  expect_widening(kF16, TSR_F16);
}

TEST(CpuElementwise, CastsToFloat64AndBack) {
  const auto source = interesting_floats(1000);
  std::vector<double> wide(source.size());
  std::vector<float> back(source.size());
  run_op(make_op(TSR_OP_CAST, source.size(), TSR_F32, TSR_F64), {const_cast<float*>(source.data()), wide.data()});
  run_op(make_op(TSR_OP_CAST, source.size(), TSR_F64, TSR_F32), {wide.data(), back.data()});
  for (size_t i = 0; i < source.size(); ++i)
    EXPECT_EQ(wide[i], static_cast<double>(source[i]));
  EXPECT_EQ(back, source);
}

TEST(CpuElementwise, CopyTakesAnyDtype) {
  for (const tsr_dtype dtype : {TSR_I8, TSR_BF16, TSR_I32, TSR_F64}) {
    constexpr size_t kNumElements = 40000;  // more than one thread's
    std::vector<uint8_t> source(TSR_NUM_BYTES(dtype, kNumElements)), result(source.size());
    for (size_t i = 0; i < source.size(); ++i)
      source[i] = static_cast<uint8_t>(i * 31);
    run_op(make_op(TSR_OP_COPY, kNumElements, dtype), {source.data(), result.data()});
    EXPECT_EQ(result, source);
  }
}

TEST(CpuElementwise, AddsAndScales) {
  std::vector<float> f32 = {1, 2, 3}, f32_addend = {10, 20, 30};
  run_op(make_op(TSR_OP_ADD_INTO, 3, TSR_F32), {f32_addend.data(), f32.data()});
  EXPECT_EQ(f32, (std::vector<float>{11, 22, 33}));
  std::vector<int64_t> i64 = {INT64_MAX, -5}, i64_addend = {1, 7};  // wraps
  run_op(make_op(TSR_OP_ADD_INTO, 2, TSR_I64), {i64_addend.data(), i64.data()});
  EXPECT_EQ(i64, (std::vector<int64_t>{INT64_MIN, 2}));
  std::vector<double> f64 = {0.5, 4}, f64_addend = {0.25, -4};
  run_op(make_op(TSR_OP_ADD_INTO, 2, TSR_F64), {f64_addend.data(), f64.data()});
  EXPECT_EQ(f64, (std::vector<double>{0.75, 0}));
  tsr_op scale = make_op(TSR_OP_SCALE, 3, TSR_F32);
  scale.attributes[TSR_ATTR_SCALE] = 0.5;
  run_op(scale, {f32.data()});
  EXPECT_EQ(f32, (std::vector<float>{5.5f, 11, 16.5f}));
}

void expect_half_arithmetic(const Format& format, tsr_dtype dtype) {
  constexpr size_t kNumElements = 5000;
  std::mt19937 random(1);
  std::vector<uint16_t> a(kNumElements), b(kNumElements);
  for (size_t i = 0; i < kNumElements; ++i) {
    do
      a[i] = static_cast<uint16_t>(random());
    while (format.is_special(a[i]));
    b[i] = static_cast<uint16_t>(a[i] ^ (random() & 0x81ff));  // often of a near exponent
    if (format.is_special(b[i])) b[i] = a[i];
  }
  auto sum = a, scaled = a;
  run_op(make_op(TSR_OP_ADD_INTO, kNumElements, dtype), {b.data(), sum.data()});
  tsr_op scale = make_op(TSR_OP_SCALE, kNumElements, dtype);
  scale.attributes[TSR_ATTR_SCALE] = 1.0 / 3;
  run_op(scale, {scaled.data()});
  for (size_t i = 0; i < kNumElements; ++i) {
    const auto x = static_cast<float>(format.value(a[i])), y = static_cast<float>(format.value(b[i]));
    ASSERT_EQ(format.value(sum[i]), format.round(x + y)) << x << " " << y;
    ASSERT_EQ(format.value(scaled[i]), format.round(x * static_cast<float>(1.0 / 3))) << x;
  }
}

TEST(CpuElementwise, AddsAndScalesHalvesInFloat32AndRoundsOnce) {
  expect_half_arithmetic(kBf16, TSR_BF16);
  expect_half_arithmetic(kF16, TSR_F16);
}

TEST(CpuElementwise, AddIntoAnUnwrittenRangeIsACopy) {
  const tsr_op op = make_op(TSR_OP_ADD_INTO, 2, TSR_F32);
  auto slots = cpu::describe_op(op);
  slots[1].mode = TSR_MODE_WRITE;
  std::vector<float> source = {1, 2}, result = {NAN, NAN};
  void* const pointers[] = {source.data(), result.data()};
  cpu::prepare_op(op, slots, 1)->run(pointers);
  EXPECT_EQ(result, source);
}

TEST(CpuElementwise, ZeroTakesManyDestinations) {
  const uint32_t dst0 = TSR_SLOT(TSR_ROLE_DESTINATION, 0), dst1 = TSR_SLOT(TSR_ROLE_DESTINATION, 1);
  const std::vector<tsr_slot_spec> slots = {{dst0, TSR_MODE_WRITE, TSR_F32, 0, 3},
                                            {dst1, TSR_MODE_WRITE, TSR_BF16, 0, 2}};
  std::vector<float> a = {1, 2, 3, 4};
  std::vector<uint16_t> b = {5, 6, 7};
  void* const pointers[] = {a.data(), b.data()};
  cpu::prepare_op(make_op(TSR_OP_ZERO, 3), slots, 1)->run(pointers);
  EXPECT_EQ(a, (std::vector<float>{0, 0, 0, 4}));
  EXPECT_EQ(b, (std::vector<uint16_t>{0, 0, 7}));
}

/// Every piece of every offset and length has the bits of the whole, at every level.
template <class LoopAt, class Call>
void expect_position_independence(size_t dst_bytes, LoopAt loop_at, Call call) {
  constexpr size_t kNumElements = 300;
  std::vector<uint8_t> whole(kNumElements * dst_bytes);
  call(loop_at(SimdLevel::kBaseline), whole.data(), 0, kNumElements);
  for (const SimdLevel level : levels())
    for (size_t offset = 0; offset <= 17; ++offset)
      for (const size_t num_elements : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 65, 100, 250}) {
        std::vector<uint8_t> piece(num_elements * dst_bytes);
        call(loop_at(level), piece.data(), offset, num_elements);
        ASSERT_EQ(std::memcmp(piece.data(), whole.data() + offset * dst_bytes, piece.size()), 0)
            << "level " << static_cast<int>(level) << " offset " << offset << " num_elements " << num_elements;
      }
}

std::vector<uint8_t> random_bytes(size_t num_bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(num_bytes);
  for (uint8_t& byte : bytes)
    byte = static_cast<uint8_t>(random());
  return bytes;
}

/// No infinities, no NaN: of two NaN a sum keeps the one that the compiler put first.
std::vector<uint8_t> random_finite(size_t num_elements, size_t element_bytes, uint32_t seed) {
  std::vector<uint8_t> bytes = random_bytes(num_elements * element_bytes, seed);
  for (size_t i = element_bytes - 1; i < bytes.size(); i += element_bytes)
    bytes[i] &= 0xbf;  // the exponent's highest bit
  return bytes;
}

#define EXPECT_POSITION_INDEPENDENCE(loop, src_bytes, dst_bytes)                                     \
  expect_position_independence(                                                                      \
      dst_bytes, [](SimdLevel level) { return TESSERA_SIMD_AT(level, loop); },                       \
      [](cpu::ElementLoop f, uint8_t* dst, size_t offset, size_t n) {                                \
        const auto src = random_bytes(320 * (src_bytes), 1), old = random_finite(320, dst_bytes, 2); \
        std::memcpy(dst, old.data() + offset * (dst_bytes), n * (dst_bytes));                        \
        f(dst, src.data() + offset * (src_bytes), n);                                                \
      })

TEST(CpuElementwise, ResultsDoNotDependOnOffsetLengthOrInstructions) {
  EXPECT_POSITION_INDEPENDENCE(cast_f32_bf16, 4, 2);
  EXPECT_POSITION_INDEPENDENCE(cast_bf16_f32, 2, 4);
  EXPECT_POSITION_INDEPENDENCE(cast_f32_f16, 4, 2);
  EXPECT_POSITION_INDEPENDENCE(cast_f16_f32, 2, 4);
  EXPECT_POSITION_INDEPENDENCE(cast_f32_f64, 4, 8);
  EXPECT_POSITION_INDEPENDENCE(cast_f64_f32, 8, 4);
  EXPECT_POSITION_INDEPENDENCE(add_f32, 4, 4);
  EXPECT_POSITION_INDEPENDENCE(add_f64, 8, 8);
  EXPECT_POSITION_INDEPENDENCE(add_i64, 8, 8);
  EXPECT_POSITION_INDEPENDENCE(add_bf16, 2, 2);
  EXPECT_POSITION_INDEPENDENCE(add_f16, 2, 2);
}

TEST(CpuElementwise, NamesWhatItDoesNotCompute) {
  expect_error([] { cpu::describe_op(make_op(TSR_OP_CAST, 1, TSR_BF16, TSR_F16)); }, {"bfloat16", "float16"});
  expect_error([] { cpu::describe_op(make_op(TSR_OP_ADD_INTO, 1, TSR_I32)); }, {"int32"});
  expect_error([] { cpu::describe_op(make_op(TSR_OP_SCALE, 1, TSR_I64)); }, {"int64"});
  expect_error([] { cpu::describe_op(make_op(99, 1)); }, {"99"});
  expect_error([] { cpu::describe_op(make_op(TSR_OP_COPY, static_cast<uint64_t>(-3))); }, {"-3"});
}

}  // namespace
}  // namespace tessera
