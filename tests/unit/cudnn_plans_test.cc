// cuDNN plans attention as cuda-device asks for it, for GPUs that are not here: it takes the graphs, and what it wants
// as scratch is within what describe lists.
#include <gtest/gtest.h>

#include "cuda-device/kernels/attention/cudnn_graphs.h"
#include "support/expect_error.h"

namespace tessera::cuda {
namespace {

// Properties of a device as cuDNN writes them, of those that matter to its plans.
std::string device_json(int capability, int num_multiprocessors, int shared_bytes, int64_t memory_bytes) {
  const auto field = [](const char* name, int64_t value) {
    return ",\"" + std::string(name) + "\":" + std::to_string(value);
  };
  return R"({"deviceName":"a GPU","maxBlockSize":[1024,1024,64],"maxGridSize":[2147483647,65535,65535])" +
         field("cudaDeviceId", 0) + field("deviceVer", capability * 10) + field("driverVer", 13000) +
         field("isTccDriver", 0) + field("l2CacheSize", 50 << 20) + field("maxCtasPerSM", 32) +
         field("maxRegistersPerSM", 65536) + field("maxSharedMemoryPerBlock", 49152) +
         field("maxSharedMemoryPerBlockOptin", shared_bytes) + field("maxThreadsPerBlock", 1024) +
         field("maxThreadsPerSM", 2048) + field("memClockRateKHz", 2619000) +
         field("multiProcessorCount", num_multiprocessors) + field("pciDeviceId", 0) + field("regsPerBlock", 65536) +
         field("reservedSharedMemoryPerBlock", 1024) + field("smClockRateKHz", 1980000) +
         field("supportCoopLaunch", 1) + field("totalGlobalMem", memory_bytes) + field("warpSize", 32) + "}";
}

AttentionShape make_shape(int64_t batch, int64_t sequence, int64_t heads, int64_t head_dim) {
  tsr_op op{};
  op.dims[TSR_DIM_BATCH] = batch;
  op.dims[TSR_DIM_SEQ] = sequence;
  op.dims[TSR_DIM_HEADS] = heads;
  op.dims[TSR_DIM_HEAD_DIM] = head_dim;
  return AttentionShape(op);
}

class CudnnPlans : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    try {
      cudnn_library();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    if (cudnn_frontend::detail::get_backend_version() < 91100)
      GTEST_SKIP() << "needs cuDNN 9.11 or later, which plans for devices that are absent";
  }

  static CudnnTarget target() {
    static const CudnnTarget h200 = cudnn_target(device_json(90, 132, 232448, int64_t{140} << 30), 90);
    static const CudnnTarget a100 = cudnn_target(device_json(80, 108, 166912, int64_t{80} << 30), 80);
    return GetParam() == 90 ? h200 : a100;
  }

  static void expect_forward(const AttentionShape& shape, tsr_dtype dtype = TSR_BF16) {
    const CudnnAttention forward{shape, {shape.batch, shape.heads}, dtype, true};
    EXPECT_LE(plan_cudnn_forward(forward, target()).workspace_bytes, kCudnnForwardBytes);
  }
  // Returns the bytes of scratch. `gradient_heads` in a row of the gradient, the shape's or the part's.
  static int64_t expect_backward(const AttentionShape& shape, bool is_deterministic, int64_t gradient_heads,
                                 tsr_dtype dtype = TSR_BF16) {
    CudnnAttention backward{shape, attention_part(shape), dtype, is_deterministic};
    backward.gradient_heads = gradient_heads;
    const int64_t bytes = plan_cudnn_backward(backward, target()).workspace_bytes;
    EXPECT_LE(bytes, AttentionScratch(shape).cudnn);
    return bytes;
  }
};

TEST_P(CudnnPlans, Gpt2) {
  const AttentionShape small = make_shape(32, 1024, 12, 64), xl = make_shape(16, 1024, 25, 64);
  for (const AttentionShape& shape : {small, xl}) {
    expect_forward(shape);
    const int64_t bytes = expect_backward(shape, true, shape.heads);
    EXPECT_LE(AttentionScratch(shape).cudnn, bytes + bytes / 100) << "more is set aside than cuDNN wants";
    expect_backward(shape, false, shape.heads);
  }
  expect_forward(small, TSR_F16);
  expect_backward(small, true, 12, TSR_F16);
}

TEST_P(CudnnPlans, HeadsOfOneSequenceInParts) {
  const AttentionShape shape = make_shape(2, 8192, 25, 64);
  const AttentionPart part = attention_part(shape);
  EXPECT_LT(part.heads, shape.heads);
  expect_backward(shape, true, shape.heads);
  expect_backward(shape, true, part.heads);  // a gradient of its own, to be added
}

// As in device_ops_test.
TEST_P(CudnnPlans, SmallOpsInParts) {
  const AttentionShape shape = make_shape(4, 128, 3, 16);
  for (const int64_t part_bytes : {1, 300'000})
    for (const bool accumulates : {false, true}) {
      const AttentionPart part = attention_part(shape, part_bytes);
      CudnnAttention backward{shape, part, TSR_BF16, true};
      backward.gradient_heads = accumulates ? part.heads : shape.heads;
      EXPECT_LE(plan_cudnn_backward(backward, target()).workspace_bytes, AttentionScratch(shape).cudnn);
    }
}

TEST_P(CudnnPlans, HeadDims) {
  for (const int64_t head_dim : {8, 40, 80, 128}) {
    expect_forward(make_shape(2, 256, 3, head_dim));
    expect_backward(make_shape(2, 256, 3, head_dim), true, 3);
  }
}

TEST_P(CudnnPlans, Sequences) {
  for (const int64_t sequence : {2, 7, 100, 1023}) {
    expect_forward(make_shape(3, sequence, 2, 64));
    expect_backward(make_shape(2, sequence, 2, 64), true, 2);
    expect_backward(make_shape(2, sequence, 2, 64), false, 2);
  }
}

TEST_P(CudnnPlans, WhatCudnnRefusesIsOneSentence) {
  const AttentionShape shape = make_shape(2, 64, 2, 20);
  testing::expect_error([&] { plan_cudnn_forward({shape, {2, 2}, TSR_BF16, true}, target()); }, {"does not plan it"});
  const AttentionShape odd = make_shape(3, 7, 2, 64);
  testing::expect_error([&] { plan_cudnn_backward({odd, {3, 2}, TSR_BF16, true}, target()); }, {"multiple of 4"});
  testing::expect_error([&] { cudnn_target("{}", 90); }, {"properties of a device"});
}

INSTANTIATE_TEST_SUITE_P(Devices, CudnnPlans, ::testing::Values(90, 80),
                         [](const auto& device) { return "sm_" + std::to_string(device.param); });

TEST(AttentionParts, DivideTheOpWithinTheirScratch) {
  for (const auto& shape : {make_shape(32, 1024, 12, 64), make_shape(16, 1024, 25, 64), make_shape(6, 8192, 25, 64),
                            make_shape(2, 32768, 16, 128), make_shape(1, 128, 3, 8), make_shape(7, 2048, 16, 64)}) {
    const AttentionPart part = attention_part(shape);
    EXPECT_EQ(shape.batch % part.batch, 0);
    EXPECT_EQ(shape.heads % part.heads, 0);
    EXPECT_TRUE(part.batch == 1 || part.heads == shape.heads);
    EXPECT_TRUE(part.num_heads() == 1 || part.num_heads() * cudnn_backward_bytes(shape) <= kMaxPartBytes);
  }
  EXPECT_EQ(attention_part(make_shape(32, 1024, 12, 64)), (AttentionPart{16, 12}));
  EXPECT_EQ(attention_part(make_shape(2, 32768, 16, 128)), (AttentionPart{1, 1}));
  // Shorter ones, as tests ask for them.
  EXPECT_EQ(attention_part(make_shape(4, 128, 3, 16), 300'000), (AttentionPart{2, 3}));
  EXPECT_EQ(attention_part(make_shape(4, 128, 3, 16), 1), (AttentionPart{1, 1}));
  // Statistics of parts would begin at addresses that are not multiples of 16.
  EXPECT_EQ(attention_part(make_shape(64, 1023, 12, 64)), (AttentionPart{64, 12}));
}

}  // namespace
}  // namespace tessera::cuda
