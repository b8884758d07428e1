// What cpu-device promises beyond what is asked of every device (tests/conformance/device_ops_*): orders of additions,
// teams of any size, chunks.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstdlib>

#include "cpu-device/device.h"
#include "cpu-device/kernels/bf16/product.h"
#include "cpu-device/kernels/bf16/rows.h"
#include "support/op_cases.h"
#include "support/op_check.h"
#include "support/reference_kernels.h"
#include "tessera/accumulator.hpp"
#include "tessera/device_table.hpp"
#include "tessera/operands.hpp"

namespace tessera::testing {
namespace {

constexpr RunOptions kWrite{.gradient_mode = TSR_MODE_WRITE};

DeviceRunner& cpu() {
  static DeviceRunner runner(kDeviceInterface<cpu::Plugin>);
  return runner;
}

RunOptions with_threads(int num_threads) {
  return {.num_threads = num_threads, .gradient_mode = TSR_MODE_WRITE};
}

TEST(CpuTokenEmbedding, AddsRowsInTheOrderOfTheTokens) {
  const uint64_t num_tokens = 40, embed = 130;
  OpCase c = token_embedding_case(1, 40, 130, 3);
  c.op.phase = TSR_PHASE_BACKWARD;
  c.operands.floats[dout(0)] = random_floats(num_tokens * embed, 5);
  std::vector<float> expected(3 * embed, 0.0f);
  for (size_t n = 0; n < num_tokens; ++n)
    for (size_t column = 0; column < embed; ++column)
      expected[static_cast<size_t>(c.operands.tokens[in(0)][n]) * embed + column] +=
          c.operands.floats[dout(0)][n * embed + column];
  for (const int num_threads : {1, 3})
    EXPECT_EQ(run(cpu(), c.op, c.operands, with_threads(num_threads)).floats.at(g(0)), expected);
}

TEST(CpuLinear, TheContextStandsBetweenTheHalves) {
  tsr_op op = linear_case({1, 4, 3, 5, TSR_ACTIVATION_RELU, false}).op;
  op.phase = TSR_PHASE_BACKWARD_WEIGHT;
  const auto slots = cpu().describe(op);
  std::vector<uint32_t> listed;
  for (const tsr_slot_spec& slot : slots)
    listed.push_back(slot.slot);
  EXPECT_EQ(listed, (std::vector<uint32_t>{in(0), g(0), context(0)}));
  EXPECT_EQ(slots.back().num_elements, 20u);
}

class CpuLossTest : public ::testing::TestWithParam<LossExtents> {};

TEST_P(CpuLossTest, IsTheSameInBothPhases) {
  OpCase c = loss_case(GetParam());
  const Operands train = run(cpu(), c.op, c.operands, kWrite);
  c.op.phase = TSR_PHASE_FORWARD;
  EXPECT_EQ(run(cpu(), c.op, c.operands, {.offset = -1}).loss, train.loss);
}

TEST_P(CpuLossTest, IsTheFloat32LossOfRoundedOperands) {
  for (const tsr_dtype dtype : {TSR_F16}) {
    OpCase c = loss_case(GetParam());
    for (auto& [slot, values] : c.operands.floats)
      for (float& value : values)
        value = rounded(dtype, value);
    const Operands in_float32 = run(cpu(), c.op, c.operands, kWrite);
    c.op.dtype = dtype;
    const Operands in_16_bit = run(cpu(), c.op, c.operands, kWrite);
    EXPECT_EQ(in_16_bit.loss, in_float32.loss);
    EXPECT_EQ(in_16_bit.floats.at(g(0)), in_float32.floats.at(g(0)));
    for (size_t i = 0; i < c.operands.floats.at(in(0)).size(); ++i)
      EXPECT_EQ(in_16_bit.floats.at(din(0))[i], rounded(dtype, in_float32.floats.at(din(0))[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(Extents, CpuLossTest,
                         ::testing::Values(LossExtents{1, 1, 7, 96}, LossExtents{2, 5, 48, 101},
                                           LossExtents{1, 33, 33, 96}, LossExtents{2, 16, 7, 2000}));

// CMakeLists.txt also runs these without AMX.
TEST(CpuBf16, AmxCanBeHeldBack) {
  const char* const held_back = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (!held_back) GTEST_SKIP() << "needs ONEDNN_MAX_CPU_ISA, which cpu_kernels_test_without_amx sets";
  if (std::string_view(held_back) == "AVX512_CORE_BF16") {
    EXPECT_FALSE(cpu::has_amx());
  }
}

/// `c` with teams of several sizes, and operands at several addresses.
void expect_one_result(OpCase c, uint32_t mode) {
  c.op.dtype = TSR_BF16;
  const Operands expected = run(cpu(), c.op, c.operands, {.gradient_mode = mode});
  for (const int num_threads : {2, 3, 5, 40})
    for (const int offset : {0, 1}) {
      const RunOptions options{.num_threads = num_threads, .gradient_mode = mode, .offset = offset};
      const Operands results = run(cpu(), c.op, c.operands, options);
      expect_same_bits(c.op, results, expected, std::to_string(num_threads) + " threads");
      EXPECT_EQ(results.loss, expected.loss);
    }
}

// oneDNN asks for the size of the team once more when a product runs outside a parallel region.
TEST(CpuBf16, ProductHasTheSameBitsWhateverTheTeamOfItsThread) {
  constexpr cpu::ProductExtents kExtents{24, 384, 3072};
  const auto in_16_bit = [](uint64_t num_elements, uint64_t seed) {
    const std::vector<float> values = random_floats(num_elements, seed);
    std::vector<uint16_t> narrow(num_elements);
    cpu::narrow(values.data(), num_elements, narrow.data());
    return narrow;
  };
  constexpr uint64_t kStride = 2 * kExtents.n;  // of a tile: such a product is another one of oneDNN's
  const std::vector<uint16_t> a = in_16_bit(kExtents.m * kExtents.k, 11), b = in_16_bit(kExtents.k * kStride, 12);
  const cpu::Bf16Product product(kExtents, {kExtents.k}, {kStride}, kExtents.n, false);
  const auto result = [&](int team) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(team);
    std::vector<float> c(kExtents.m * kExtents.n);
    product.run(a.data(), b.data(), c.data());
    EXPECT_EQ(omp_get_max_threads(), team);
    omp_set_num_threads(before);
    return c;
  };
  EXPECT_EQ(result(40), result(1));
}

// More than one tile each way, the last ones narrower; an inner dim that oneDNN would cut for a
// team.
TEST(CpuBf16, LinearHasTheSameBitsOnAnyNumberOfThreads) {
  for (const LinearExtents& extents : {LinearExtents{2, 150, 70, 801, TSR_ACTIVATION_GELU_TANH, true},
                                       LinearExtents{1, 24, 3072, 768, TSR_ACTIVATION_NONE, false}}) {
    OpCase c = linear_case(extents);
    c.op.dtype = TSR_BF16;
    c.op.phase = TSR_PHASE_FORWARD;
    expect_one_result(c, TSR_MODE_WRITE);
    const auto rows = static_cast<uint64_t>(extents.batch * extents.seq);
    const Operands forward = run(cpu(), c.op, c.operands);
    c.operands = forward;
    c.operands.floats[dout(0)] = random_floats(rows * static_cast<uint64_t>(extents.out), 7);
    c.op.phase = TSR_PHASE_BACKWARD;
    expect_one_result(c, TSR_MODE_WRITE);
    c.operands.floats[g(0)] = random_floats(static_cast<uint64_t>(extents.in * extents.out), 8);
    c.operands.floats[g(1)] = random_floats(static_cast<uint64_t>(extents.out), 9);
    c.operands.floats[din(0)] = random_floats(rows * static_cast<uint64_t>(extents.in), 10);
    if (!extents.has_bias) c.operands.floats.erase(g(1));
    expect_one_result(c, TSR_MODE_ADD);
  }
}

// Two chunks of tokens and three blocks of the vocabulary, the last ones smaller.
TEST(CpuBf16, LossHasTheSameBitsOnAnyNumberOfThreads) {
  const OpCase c = loss_case({3, 100, 40, 2500});
  expect_one_result(c, TSR_MODE_WRITE);
}

TEST(CpuBf16, LossIsTheReferenceOverChunksAndBlocks) {
  OpCase c = loss_case({3, 100, 40, 2500});
  c.op.dtype = TSR_BF16;
  for (auto& [slot, values] : c.operands.floats)
    for (float& value : values)
      value = rounded(TSR_BF16, value);
  Tensors tensors;
  for (const auto& [slot, values] : c.operands.floats)
    tensors[slot].assign(values.begin(), values.end());
  const Operands results = run(cpu(), c.op, c.operands, kWrite);
  const double loss = reference_forward(c.op, tensors, c.operands.tokens).begin()->second[0];
  EXPECT_NEAR(decode(ConstAccumulatorView(results.loss.data(), TSR_ACCUMULATOR_LIMBS)), loss, 1e-6 * loss);
  const Tensors reference = reference_backward(c.op, tensors, c.operands.tokens);
  const double once = kBf16LossRoundoffs * roundoff(TSR_BF16);
  expect_close(results.floats.at(g(0)), reference.at(g(0)), {4e-6 + once}, "g0");
  expect_close(results.floats.at(din(0)), reference.at(din(0)), {4e-6 + once + roundoff(TSR_BF16)}, "di0");
}

TEST(CpuLoss, GoesOverChunksOfTokens) {
  // 64 MiB of logits hold 16 tokens of this vocabulary: a chunk and a shorter one.
  const OpCase c = loss_case({1, 19, 1, 1 << 20});
  const auto slots = cpu().describe(c.op);
  const auto logits = static_cast<size_t>(op::slot_index(slots, TSR_SLOT(TSR_ROLE_WORKSPACE, 0)));
  EXPECT_EQ(slots[logits].num_elements, uint64_t{16} << 20);
  Tensors tensors;
  for (const auto& [slot, values] : c.operands.floats)
    tensors[slot].assign(values.begin(), values.end());
  const Operands results = run(cpu(), c.op, c.operands, kWrite);
  EXPECT_NEAR(decode(ConstAccumulatorView(results.loss.data(), TSR_ACCUMULATOR_LIMBS)),
              reference_forward(c.op, tensors, c.operands.tokens).begin()->second[0], 1e-6 * 19 * std::log(1 << 20));
  const Tensors reference = reference_backward(c.op, tensors, c.operands.tokens);
  expect_close(results.floats.at(g(0)), reference.at(g(0)), {4e-6}, "g0");
  expect_close(results.floats.at(din(0)), reference.at(din(0)), {1e-3}, "di0");  // sums of 2^20 terms in float32
}

class CpuSplitLossTest : public ::testing::TestWithParam<TokenExtents> {};

TEST_P(CpuSplitLossTest, WhatIsMadeOfLogitsHasTheSameBitsOnAnyNumberOfThreads) {
  const OpCase stats = softmax_stats_case(GetParam()), grad = loss_grad_case(GetParam());
  const Operands one_stats = run(cpu(), stats.op, stats.operands),
                 one_grad = run(cpu(), grad.op, grad.operands, kWrite);
  for (const int num_threads : {2, 3, 5}) {
    const RunOptions options = with_threads(num_threads);
    expect_same_bits(stats.op, run(cpu(), stats.op, stats.operands, options), one_stats, "more threads");
    const Operands results = run(cpu(), grad.op, grad.operands, options);
    expect_same_bits(grad.op, results, one_grad, "more threads");
    EXPECT_EQ(results.loss, one_grad.loss);
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, CpuSplitLossTest,
                         ::testing::Values(TokenExtents{1, 1, 7, 23, 0, 23, 23}, TokenExtents{2, 5, 48, 12, 11, 11, 22},
                                           TokenExtents{1, 33, 33, 6, 12, 1, 13},
                                           TokenExtents{2, 16, 7, 2001, 2000, 1999, 4000}));

}  // namespace
}  // namespace tessera::testing
