// The device contract of tessera/device.h: describe, prepare and launch, for every device plugin.
#include "support/device_fixture.h"
#include "support/device_ops.h"

namespace tessera {
namespace {

using tessera::testing::make_op;

constexpr uint32_t kSource = TSR_SLOT(TSR_ROLE_SOURCE, 0), kDestination = TSR_SLOT(TSR_ROLE_DESTINATION, 0);

class DeviceKernelTest : public tessera::testing::DeviceFixture {};

TEST_P(DeviceKernelTest, DescribeListsSlotsAndSaysWhenThereIsNoRoom) {
  const tsr_op op = make_op(TSR_OP_ADD_INTO, 9);
  const auto slots = describe(op);
  ASSERT_EQ(slots.size(), 2u);
  EXPECT_EQ(slots[0].slot, kSource);
  EXPECT_EQ(slots[0].mode, TSR_MODE_READ);
  EXPECT_EQ(slots[1].slot, kDestination);
  EXPECT_EQ(slots[1].mode, TSR_MODE_ADD);
  EXPECT_EQ(slots[1].num_elements, 9u);
  tsr_slot_spec slot{};
  uint64_t num_slots = 1;
  tsr_error err{};
  EXPECT_EQ(table_.describe(&op, &slot, &num_slots, &err), TSR_E_RESOURCE_EXHAUSTED);
  EXPECT_EQ(num_slots, 2u);
}

TEST_P(DeviceKernelTest, DescribeRefusesWhatTheDeviceDoesNotCompute) {
  std::vector<tsr_slot_spec> slots(8);
  for (const tsr_op& op : {make_op(31000, 1), make_op(0, 1), make_op(TSR_OP_CAST, 1, TSR_I8, TSR_F32)}) {
    uint64_t num_slots = slots.size();
    tsr_error err{};
    EXPECT_EQ(table_.describe(&op, slots.data(), &num_slots, &err), TSR_E_UNSUPPORTED);
    EXPECT_NE(err.message[0], '\0');
  }
}

TEST_P(DeviceKernelTest, KernelsRunInStreamOrderOnTheirOperands) {
  constexpr uint64_t kNumElements = 1000, kNumBytes = kNumElements * sizeof(float);
  const tsr_op op = make_op(TSR_OP_ADD_INTO, kNumElements);
  const Kernel kernel = prepare(op, describe(op));
  const Stream stream = make_stream("test");
  auto* memory = static_cast<char*>(allocate(TSR_MEMORY_DEVICE, 2 * kNumBytes));
  std::vector<float> ones(kNumElements, 1), result(kNumElements);
  copy(stream, memory, ones.data(), kNumBytes);
  call(table_.fill, stream.get(), memory + kNumBytes, 0u, kNumBytes);
  for (int i = 0; i < 5; ++i) {
    std::vector<void*> pointers = {memory, memory + kNumBytes};
    launch(kernel, stream, pointers);
    pointers.assign(2, nullptr);  // the array was copied
  }
  copy(stream, result.data(), memory + kNumBytes, kNumBytes);
  synchronize(stream);
  EXPECT_EQ(result, std::vector<float>(kNumElements, 5));
}

TEST_P(DeviceKernelTest, OneKernelRunsOnTwoStreams) {
  const tsr_op op = make_op(TSR_OP_COPY, 4);
  const Kernel kernel = prepare(op, describe(op));
  const Stream first = make_stream("first"), second = make_stream("second");
  auto* memory = static_cast<char*>(allocate(TSR_MEMORY_DEVICE, 64));
  call(table_.fill, first.get(), memory, 1u, uint64_t{16});
  call(table_.fill, second.get(), memory + 32, 2u, uint64_t{16});
  launch(kernel, first, {memory, memory + 16});
  launch(kernel, second, {memory + 32, memory + 48});
  std::vector<uint8_t> a(16), b(16);
  copy(first, a.data(), memory + 16, 16);
  copy(second, b.data(), memory + 48, 16);
  synchronize(first);
  synchronize(second);
  EXPECT_EQ(a, std::vector<uint8_t>(16, 1));
  EXPECT_EQ(b, std::vector<uint8_t>(16, 2));
}

TEST_P(DeviceKernelTest, PrepareRefusesSlotsThatAreNotTheOps) {
  const tsr_op op = make_op(TSR_OP_ADD_INTO, 8);
  const auto good = describe(op);
  std::vector<std::vector<tsr_slot_spec>> wrong(6, good);
  wrong[0].pop_back();
  wrong[1].push_back(good[0]);
  wrong[2].push_back({TSR_SLOT(TSR_ROLE_STATE, 0), TSR_MODE_READ, TSR_F32, 0, 8});
  wrong[3][0].dtype = TSR_F64;
  wrong[4][0].num_elements = 7;
  wrong[5][0].mode = TSR_MODE_ADD;
  for (const auto& slots : wrong) {
    tsr_kernel* kernel = nullptr;
    tsr_error err{};
    EXPECT_EQ(table_.prepare(device_, &op, slots.data(), slots.size(), &kernel, &err), TSR_E_INVALID_ARGUMENT);
    EXPECT_NE(err.message[0], '\0');
    EXPECT_EQ(kernel, nullptr);
  }
  const Kernel kernel = prepare(op, {good[1], good[0]});  // any order
  const Stream stream = make_stream("test");
  void* one_pointer = nullptr;
  tsr_error err{};
  EXPECT_EQ(table_.launch(kernel.get(), stream.get(), &one_pointer, 1, &err), TSR_E_INVALID_ARGUMENT);
}

TEST_P(DeviceKernelTest, AStepClipsAndUpdates) {  // sum of squares, clip, SGD: 3-4-5
  const std::vector<tsr_op_range> ranges = {{0, 2, 0.0}};
  tsr_op squares = make_op(TSR_OP_SUM_SQUARES, 2), clip = make_op(TSR_OP_CLIP, 0), sgd = make_op(TSR_OP_SGD, 2);
  for (tsr_op* op : {&squares, &sgd}) {
    op->ranges = ranges.data();
    op->num_ranges = ranges.size();
  }
  struct Memory {
    float value[2] = {1, 1}, gradient[2] = {3, 4}, momentum[2] = {0, 0};
    double clip[3], lr = 0.5;
    int64_t step = 0, accumulator[TSR_ACCUMULATOR_LIMBS];
  } in{}, out;
  auto* memory = static_cast<Memory*>(allocate(TSR_MEMORY_DEVICE, sizeof(Memory)));
  auto squares_slots = describe(squares);
  squares_slots[1].mode = TSR_MODE_WRITE;  // the accumulator holds nothing yet
  std::fill(std::begin(in.accumulator), std::end(in.accumulator), 12345);
  const Kernel squares_kernel = prepare(squares, squares_slots), clip_kernel = prepare(clip, describe(clip));
  const Kernel sgd_kernel = prepare(sgd, describe(sgd));
  const Stream stream = make_stream("test");
  copy(stream, memory, &in, sizeof in);
  launch(squares_kernel, stream, {memory->gradient, memory->accumulator});
  launch(clip_kernel, stream, {memory->accumulator, memory->clip, &memory->step});
  launch(sgd_kernel, stream,
         {memory->value, memory->gradient, memory->momentum, memory->clip, &memory->step, &memory->lr});
  copy(stream, &out, memory, sizeof out);
  synchronize(stream);
  EXPECT_EQ(out.clip[0], 1);
  EXPECT_EQ(out.clip[1], 1);
  EXPECT_EQ(out.clip[2], 5);
  EXPECT_EQ(out.step, 1);
  EXPECT_EQ(out.value[0], -0.5f);
  EXPECT_EQ(out.value[1], -1.0f);
}

INSTANTIATE_TEST_SUITE_P(Plugins, DeviceKernelTest, tessera::testing::built_devices(), tessera::testing::device_name);

}  // namespace
}  // namespace tessera
