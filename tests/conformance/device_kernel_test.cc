// The device contract of tessera/device.h: describe, prepare and launch, for every device plugin.
#include <vector>

#include "support/device_fixture.h"
#include "support/device_ops.h"
#include "support/typed_buffer.h"

namespace tessera {
namespace {

using tessera::testing::known_part;
using tessera::testing::make_op;
using tessera::testing::TypedBuffer;

constexpr uint32_t kSource = TSR_SLOT(TSR_ROLE_SOURCE, 0), kDestination = TSR_SLOT(TSR_ROLE_DESTINATION, 0);

// The ops of segments, on one sequence of four tokens.
tsr_op segment_op(uint32_t kind, uint32_t phase, tsr_dtype dtype) {
  tsr_op op = make_op(kind, 0, dtype);
  op.phase = phase;
  for (int dim = 0; dim <= int{TSR_DIM_CLASSES}; ++dim)
    op.dims[dim] = dim == TSR_DIM_BATCH || dim == TSR_DIM_ELEMENTS ? 1 : 4;
  op.attributes[TSR_ATTR_EPSILON] = 1e-5;
  op.attributes[TSR_ATTR_VOCAB_COUNT] = op.attributes[TSR_ATTR_VOCAB_TOTAL] = 4;
  op.attributes[TSR_ATTR_HAS_BIAS] = 1;
  op.attributes[TSR_ATTR_ACTIVATION] = TSR_ACTIVATION_GELU_TANH;
  return known_part(op);
}

// Whether it works on logits, which are float32.
bool is_float32_only(uint32_t kind) {
  return kind == TSR_OP_SOFTMAX_STATS || kind == TSR_OP_LOSS_GRAD;
}

bool has_phase(uint32_t kind, uint32_t phase) {
  if (kind == TSR_OP_SOFTMAX_STATS) return phase == TSR_PHASE_FORWARD;
  if (kind == TSR_OP_LOSS || kind == TSR_OP_LOSS_GRAD || kind == TSR_OP_CROSS_ENTROPY)
    return phase <= TSR_PHASE_BACKWARD;
  return true;
}

bool holds_tokens(uint32_t kind, uint32_t input) {
  switch (kind) {
    case TSR_OP_TOKEN_EMBEDDING:
      return input == 0;
    case TSR_OP_LOSS:
    case TSR_OP_CROSS_ENTROPY:
      return input == 1;
    case TSR_OP_SOFTMAX_STATS:
      return input == 2;
    default:
      return kind == TSR_OP_LOSS_GRAD && input == 4;
  }
}

tsr_dtype expected_dtype(const tsr_op& op, uint32_t slot) {
  switch (TSR_SLOT_ROLE(slot)) {
    case TSR_ROLE_OUTPUT:
    case TSR_ROLE_OUTPUT_GRADIENT:
      return op.kind == TSR_OP_HEAD_LOGITS ? TSR_F32 : op.dtype;
    case TSR_ROLE_PARAMETER:
    case TSR_ROLE_INPUT_GRADIENT:
      return op.dtype;
    case TSR_ROLE_INPUT:
      return holds_tokens(op.kind, TSR_SLOT_INDEX(slot)) ? TSR_I32 : op.dtype;
    case TSR_ROLE_SAVED:
      return op.kind == TSR_OP_LINEAR ? op.dtype : TSR_F32;
    case TSR_ROLE_SCALAR:
      return slot == TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_LOSS_SCALE) ? TSR_F64 : TSR_I64;
    default:
      return TSR_F32;
  }
}

constexpr tsr_dtype kDtypes[] = {TSR_F32, TSR_BF16, TSR_F16};

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

TEST_P(DeviceKernelTest, DescribeRefusesExtentsThatAreTooLargeToAddress) {
  tsr_op op = segment_op(TSR_OP_LINEAR, TSR_PHASE_FORWARD, TSR_F32);
  op.dims[TSR_DIM_IN] = int64_t{1} << 62;
  uint64_t num_slots = 0;
  tsr_error err{};
  EXPECT_EQ(table_.describe(&op, nullptr, &num_slots, &err), TSR_E_INVALID_ARGUMENT);
  EXPECT_NE(std::string_view(err.message).find("too large to address"), std::string_view::npos) << err.message;
}

// A later host means something by what this device does not know.
TEST_P(DeviceKernelTest, RefusesAttributesAndExtentsThatItDoesNotKnow) {
  const auto refuse = [&](const std::function<void(tsr_op&)>& change) {
    for (tsr_op op :
         {make_op(TSR_OP_ADD_INTO, 8), make_op(TSR_OP_ADAMW, 8), segment_op(TSR_OP_ADD, TSR_PHASE_FORWARD, TSR_F32)}) {
      EXPECT_FALSE(describe(op).empty());
      change(op);
      uint64_t num_slots = 0;
      tsr_error err{};
      EXPECT_EQ(table_.describe(&op, nullptr, &num_slots, &err), TSR_E_UNSUPPORTED);
      EXPECT_NE(std::string_view(err.message).find("not known here"), std::string_view::npos) << err.message;
    }
  };
  refuse([](tsr_op& op) { op.own[0] = 1; });
  refuse([](tsr_op& op) { op.own[TSR_NUM_OWN - 1] = 0.5; });
  refuse([](tsr_op& op) { op.attributes[TSR_NUM_ATTRIBUTES - 1] = 1; });
  refuse([](tsr_op& op) { op.dims[TSR_DIM_OWN] = 3; });
  refuse([](tsr_op& op) { op.dims[TSR_DIM_ROWS] = 3; });
  refuse([](tsr_op& op) { op.dims[TSR_DIM_FFN] = 3; });  // of other ops
  refuse([](tsr_op& op) { op.attributes[TSR_ATTR_SCALE] = 0.5; });
  refuse([](tsr_op& op) {
    op = segment_op(TSR_OP_LINEAR, TSR_PHASE_FORWARD, TSR_F32), op.attributes[TSR_ATTR_HAS_BIAS] = 7;
  });
}

TEST_P(DeviceKernelTest, SegmentsHaveTheSameSlotsInEveryDtype) {
  for (uint32_t kind = TSR_OP_TOKEN_EMBEDDING; kind <= TSR_OP_CROSS_ENTROPY; ++kind)
    for (uint32_t phase = TSR_PHASE_FORWARD; phase <= TSR_PHASE_BACKWARD_WEIGHT; ++phase) {
      if (!has_phase(kind, phase)) continue;
      const auto in_float32 = describe(segment_op(kind, phase, TSR_F32));
      for (const tsr_dtype dtype : kDtypes) {
        if (dtype != TSR_F32 && is_float32_only(kind)) continue;
        const tsr_op op = segment_op(kind, phase, dtype);
        const auto slots = describe(op);
        ASSERT_GE(slots.size(), in_float32.size());
        for (size_t i = 0; i < slots.size(); ++i) {
          if (TSR_SLOT_ROLE(slots[i].slot) == TSR_ROLE_WORKSPACE) continue;
          ASSERT_LT(i, in_float32.size());
          EXPECT_EQ(slots[i].slot, in_float32[i].slot);
          EXPECT_EQ(slots[i].mode, in_float32[i].mode);
          EXPECT_EQ(slots[i].flags, in_float32[i].flags);
          EXPECT_EQ(slots[i].num_elements, in_float32[i].num_elements);
          if (TSR_SLOT_ROLE(slots[i].slot) == TSR_ROLE_CONTEXT) continue;  // of whatever dtype the device likes
          EXPECT_EQ(slots[i].dtype, expected_dtype(op, slots[i].slot)) << "kind " << kind << " slot " << slots[i].slot;
        }
        prepare(op, slots);
      }
    }
}

TEST_P(DeviceKernelTest, LogitsAreFloat32) {
  for (const uint32_t kind : {TSR_OP_SOFTMAX_STATS, TSR_OP_LOSS_GRAD})
    for (const tsr_dtype dtype : {TSR_BF16, TSR_F16}) {
      const tsr_op op = segment_op(kind, TSR_PHASE_FORWARD, dtype);
      std::vector<tsr_slot_spec> slots(16);
      uint64_t num_slots = slots.size();
      tsr_error err{};
      EXPECT_EQ(table_.describe(&op, slots.data(), &num_slots, &err), TSR_E_UNSUPPORTED);
      EXPECT_NE(std::string(err.message).find("float32"), std::string::npos);
    }
}

TEST_P(DeviceKernelTest, GradientsOfParametersAreFloat32) {
  for (const tsr_dtype dtype : kDtypes)
    for (const tsr_dtype gradient_dtype : {TSR_BF16, TSR_F16}) {
      tsr_op op = segment_op(TSR_OP_ADD, TSR_PHASE_BACKWARD, dtype);
      op.gradient_dtype = gradient_dtype;
      std::vector<tsr_slot_spec> slots(16);
      uint64_t num_slots = slots.size();
      tsr_error err{};
      EXPECT_EQ(table_.describe(&op, slots.data(), &num_slots, &err), TSR_E_UNSUPPORTED);
      EXPECT_NE(err.message[0], '\0');
    }
}

// Values whose sums every dtype holds exactly.
TEST_P(DeviceKernelTest, SegmentsComputeInEveryDtype) {
  constexpr uint64_t kNumElements = 16, kNumColumns = 4;
  for (const tsr_dtype dtype : kDtypes) {
    const auto value = [](uint64_t i) { return static_cast<double>(i) - 7; };
    TypedBuffer bias(dtype, kNumColumns, value), residual(dtype, kNumElements, value);
    TypedBuffer branch(dtype, kNumElements, [](uint64_t i) { return 2 * static_cast<double>(i); });
    const TypedBuffer sum(dtype, kNumElements,
                          [&](uint64_t i) { return value(i % kNumColumns) + value(i) + 2 * static_cast<double>(i); });
    const tsr_op op = segment_op(TSR_OP_ADD, TSR_PHASE_FORWARD, dtype);
    const auto slots = describe(op);
    const Stream stream = make_stream("test");
    std::vector<void*> pointers;
    for (const tsr_slot_spec& slot : slots)
      pointers.push_back(allocate(TSR_MEMORY_DEVICE, TSR_NUM_BYTES(slot.dtype, slot.num_elements)));
    TypedBuffer* const operands[] = {&bias, &residual, &branch};
    for (size_t i = 0; i < 3; ++i)
      copy(stream, pointers[i], operands[i]->data(), TSR_NUM_BYTES(dtype, operands[i]->num_elements()));
    const Kernel kernel = prepare(op, slots);
    launch(kernel, stream, pointers);
    TypedBuffer result(dtype, kNumElements);
    copy(stream, result.data(), pointers[3], TSR_NUM_BYTES(dtype, kNumElements));
    synchronize(stream);
    EXPECT_EQ(result.difference(sum), "");
  }
}

TEST_P(DeviceKernelTest, ElementwiseOpsTake16BitValues) {
  for (const tsr_dtype dtype : {TSR_BF16, TSR_F16}) {
    for (const uint32_t kind : {TSR_OP_COPY, TSR_OP_ADD_INTO, TSR_OP_SCALE, TSR_OP_ZERO})
      prepare(make_op(kind, 5, dtype), describe(make_op(kind, 5, dtype)));
    for (const tsr_op& op : {make_op(TSR_OP_CAST, 5, dtype, TSR_F32), make_op(TSR_OP_CAST, 5, TSR_F32, dtype)})
      prepare(op, describe(op));
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

TEST_P(DeviceKernelTest, OneKernelRunsOnTwoStreamsOneAfterTheOther) {
  const tsr_op op = make_op(TSR_OP_COPY, 4);
  const Kernel kernel = prepare(op, describe(op));
  const Stream first = make_stream("first"), second = make_stream("second");
  auto* memory = static_cast<char*>(allocate(TSR_MEMORY_DEVICE, 64));
  call(table_.fill, first.get(), memory, 1u, uint64_t{16});
  call(table_.fill, second.get(), memory + 32, 2u, uint64_t{16});
  launch(kernel, first, {memory, memory + 16});
  synchronize(first);
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
  std::vector<std::vector<tsr_slot_spec>> wrong(8, good);
  wrong[0].pop_back();
  wrong[1].push_back(good[0]);
  wrong[2].push_back({TSR_SLOT(TSR_ROLE_STATE, 0), TSR_MODE_READ, TSR_F32, 0, 8});
  wrong[3][0].dtype = TSR_F64;
  wrong[4][0].num_elements = 7;
  wrong[5][0].mode = TSR_MODE_ADD;
  wrong[6][0].spare[0] = 1;
  wrong[7][0].flags = 0x80;
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
  const std::vector<tsr_op_range> ranges = {{0, 2, 0.0, 1.0}};
  tsr_op squares = make_op(TSR_OP_SUM_SQUARES, 2), clip = make_op(TSR_OP_CLIP, 0), sgd = make_op(TSR_OP_SGD, 2);
  for (tsr_op* op : {&squares, &sgd}) {
    op->ranges = ranges.data();
    op->num_ranges = ranges.size();
  }
  struct Memory {
    float value[2] = {1, 1}, gradient[2] = {3, 4}, momentum[2] = {0, 0};
    double clip[3], lr = 0.5;
    int64_t step = 0, accumulator[TSR_SQUARES_WORDS];
  } in{}, out;
  auto* memory = static_cast<Memory*>(allocate(TSR_MEMORY_DEVICE, sizeof(Memory)));
  auto squares_slots = describe(squares);
  squares_slots[1].mode = TSR_MODE_WRITE;  // the accumulator holds nothing yet
  std::fill(std::begin(in.accumulator), std::end(in.accumulator), 12345);
  auto clip_slots = describe(clip);
  ASSERT_EQ(clip_slots.back().slot, TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_LOSS_SCALE));
  EXPECT_EQ(clip_slots.back().flags, TSR_SLOT_OPTIONAL);
  clip_slots.pop_back();
  const Kernel squares_kernel = prepare(squares, squares_slots), clip_kernel = prepare(clip, clip_slots);
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

// What only the data can tell fails the stream, with a sentence that says which token it was; a stream that is made
// after that is free of it, and has faults of its own.
TEST_P(DeviceKernelTest, ATokenOutsideTheVocabularyFailsTheStream) {
  const tsr_op op = segment_op(TSR_OP_TOKEN_EMBEDDING, TSR_PHASE_FORWARD, TSR_F32);
  const auto slots = describe(op);
  const Kernel kernel = prepare(op, slots);
  std::vector<void*> pointers;
  for (const tsr_slot_spec& slot : slots)
    pointers.push_back(allocate(TSR_MEMORY_DEVICE, TSR_NUM_BYTES(slot.dtype, slot.num_elements)));
  const auto embed = [&](const Stream& stream, const std::vector<int32_t>& tokens) {
    for (size_t i = 0; i < slots.size(); ++i) {
      const uint64_t num_bytes = TSR_NUM_BYTES(slots[i].dtype, slots[i].num_elements);
      if (slots[i].slot == TSR_SLOT(TSR_ROLE_INPUT, 0))
        copy(stream, pointers[i], tokens.data(), num_bytes);
      else
        call(table_.fill, stream.get(), pointers[i], 0u, num_bytes);
    }
    launch(kernel, stream, pointers);
  };
  const std::vector<int32_t> right = {0, 3, 2, 1};
  for (const int wrong : {9, 7}) {
    const std::vector<int32_t> tokens = {0, 3, wrong, 1};
    const Stream stream = make_stream("test");
    embed(stream, tokens);
    bool ran = false;
    auto set = [&] { ran = true; };
    run_on(stream, set);
    for (int i = 0; i < 2; ++i) {  // it stays failed
      tsr_error err{};
      EXPECT_EQ(table_.stream_synchronize(stream.get(), tessera::testing::kPatienceMs, &err), TSR_E_INVALID_ARGUMENT);
      EXPECT_EQ(err.message, "token " + std::to_string(wrong) +
                                 " at position 2 of the micro-batch is not in [0, 4); the data does not fit the "
                                 "model's vocabulary");
    }
    EXPECT_FALSE(ran);
    const Stream next = make_stream("next");
    embed(next, right);
    run_on(next, set);
    synchronize(next);
    EXPECT_TRUE(ran);
  }
}

INSTANTIATE_TEST_SUITE_P(Plugins, DeviceKernelTest, tessera::testing::built_devices(), tessera::testing::device_name);

}  // namespace
}  // namespace tessera
