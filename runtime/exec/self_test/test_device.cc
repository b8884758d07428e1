// The self-test of a device at the start of a run: it adds, converts and squares a few numbers.
//
//     stream a   copy in, kernel, event                    what each result must be is written here
//     stream b   waits for the event, copies out           to the bit: all numbers are exact
//
// It finds functions that return OK and do nothing or something else, streams that run work out of order or do not wait
// for one another, captures that run at once or never, and denormals that are flushed to zero. It is not a conformance
// test: it tries one shape of an op, not all. Cost: decision 0043.

#include "exec/self_test/test_device.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/concat.h"
#include "guard/known_functions.h"
#include "tessera/accumulator.hpp"
#include "tessera/error.hpp"
#include "tessera/half.hpp"

namespace tessera::host {
namespace {

constexpr uint32_t kSource = TSR_SLOT(TSR_ROLE_SOURCE, 0), kDestination = TSR_SLOT(TSR_ROLE_DESTINATION, 0);

/// An operand in bytes: what it is before the kernel, and what it must be after it.
struct Operand {
  uint32_t slot, mode;
  tsr_dtype dtype;
  std::vector<double> before, after;
};

class DeviceTest {
 public:
  DeviceTest(const Device& device, int64_t timeout_ms)
      : device_(device),
        timeout_ms_(timeout_ms),
        host_(device, TSR_MEMORY_HOST, kBytes),
        memory_(device, TSR_MEMORY_DEVICE, kBytes),
        done_(make_event(device)),
        works_(make_stream(device, "self-test")),
        reads_(make_stream(device, "self-test results")) {}

  /// Runs the op unless the device does not have it.
  void op(const char* name, const tsr_op& op, const std::vector<Operand>& operands) {
    std::vector<tsr_slot_spec> described, slots;
    try {
      described = describe(device_.api(), op);
    } catch (const Error& e) {
      if (e.code() == TSR_E_UNSUPPORTED) return;
      throw;
    }
    std::vector<void*> pointers;
    for (tsr_slot_spec& slot : described) {
      const auto given = std::ranges::find(operands, slot.slot, &Operand::slot);
      if (given != operands.end()) {
        slot.mode = given->mode;
        pointers.push_back(memory_.at(static_cast<uint64_t>(given - operands.begin()) * kOperandBytes));
      } else if (slot.flags & TSR_SLOT_OPTIONAL) {
        continue;
      } else {  // its own workspace
        workspaces_.emplace_back(device_, TSR_MEMORY_DEVICE, TSR_NUM_BYTES(slot.dtype, slot.num_elements));
        pointers.push_back(workspaces_.back().at(0));
      }
      slot.flags = 0;
      slots.push_back(slot);
    }
    kernels_.push_back(make_kernel(device_, op, slots));
    write(operands);
    call(device_.api().launch, kernels_.back().get(), works_.get(), pointers.data(), pointers.size());
    read();
    for (size_t i = 0; i < operands.size(); ++i)
      compare(name, operands[i], host_.at(i * kOperandBytes));
  }

  /// Memory that is filled.
  void fill() {
    call(device_.api().fill, works_.get(), memory_.at(0), 0x3Fu, kBytes);
    read();
    for (uint64_t i = 0; i < kBytes; ++i)
      if (*host_.at(i) != std::byte{0x3F})
        refuse("fill", concat("left byte ", i, " at ", std::to_integer<int>(*host_.at(i)), " instead of 63"));
  }

  /// Slow work, work that follows it on the same stream, and work on another stream that waits for that.
  void order() {
    std::byte *const source = host_.at(0), *const result = host_.at(kOperandBytes);
    look_ = {source, host_.at(2 * kOperandBytes)};
    *source = *result = *look_.seen = std::byte{0};
    call(device_.api().host_function, works_.get(), &write_late, source);
    call(device_.api().host_function, works_.get(), &look, &look_);
    call(device_.api().copy, works_.get(), memory_.at(0), source, uint64_t{1});
    call(device_.api().event_record, done_.get(), works_.get());
    call(device_.api().stream_wait, reads_.get(), done_.get());
    call(device_.api().copy, reads_.get(), result, memory_.at(0), uint64_t{1});
    call_for(timeout_ms_, device_.api().stream_synchronize, reads_.get(), timeout_ms_);
    call_for(timeout_ms_, device_.api().stream_synchronize, works_.get(), timeout_ms_);
    if (*result != kLate) refuse("a copy", "did not wait for the work before it, on its stream or before an event");
    if (*look_.seen != kLate) refuse("a host function", "did not wait for the one before it on its stream");
  }

  /// A host function after copies that take far longer than to give it to the stream.
  void look_after_copies() {
    constexpr uint64_t kLarge = uint64_t{4} << 20;
    std::byte* const from = workspaces_.emplace_back(device_, TSR_MEMORY_DEVICE, kLarge).at(0);
    std::byte* const to = workspaces_.emplace_back(device_, TSR_MEMORY_HOST, kLarge).at(0);
    look_ = {to + kLarge - 1, host_.at(0)};
    to[kLarge - 1] = *look_.seen = std::byte{0};
    call(device_.api().fill, works_.get(), from, std::to_integer<uint32_t>(kLate), kLarge);
    call(device_.api().copy, works_.get(), to, from, kLarge);
    call(device_.api().host_function, works_.get(), &look, &look_);
    call_for(timeout_ms_, device_.api().stream_synchronize, works_.get(), timeout_ms_);
    if (*look_.seen != kLate) refuse("a host function", "did not wait for the copy before it on its stream");
  }

  /// What is captured is not run, and each launch runs it, where the device captures work.
  void capture() {
    const auto* const table = device_.table<tsr_device_capture>(TSR_DEVICE_CAPTURE);
    if (!table) return;
    call(device_.api().fill, works_.get(), memory_.at(0), 0u, kBytes);
    call(table->begin, works_.get());
    call(device_.api().fill, works_.get(), memory_.at(0), 0x3Fu, kBytes);
    std::unique_ptr<tsr_graph, void (*)(tsr_graph*)> graph(nullptr, table->destroy);
    try {
      graph.reset(made_by<tsr_graph>(table->end, works_.get()));
    } catch (const Error&) {  // this cannot be captured, and then nothing was run
    }
    read();
    if (*host_.at(0) != std::byte{0}) refuse("a capture", "ran what it was to capture");
    for (int launch = 1; graph && launch <= 2; ++launch) {
      call(device_.api().fill, works_.get(), memory_.at(0), 0u, kBytes);
      call(table->launch, graph.get(), works_.get());
      read();
      if (*host_.at(0) != std::byte{0x3F})
        refuse(concat("launch ", launch, " of a graph"), "did not run what it holds");
    }
  }

 private:
  static constexpr std::byte kLate{77};
  static tsr_status write_late(void* to, tsr_error*) noexcept {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    *static_cast<std::byte*>(to) = kLate;
    return TSR_OK;
  }

  struct Look {
    const std::byte* at = nullptr;
    std::byte* seen = nullptr;
  };
  static tsr_status look(void* user, tsr_error*) noexcept {
    const Look& one = *static_cast<const Look*>(user);
    *one.seen = *one.at;
    return TSR_OK;
  }

  static constexpr uint64_t kOperandBytes = 256, kBytes = 4 * kOperandBytes;

  [[noreturn]] void refuse(const std::string& what, const std::string& problem) const {
    throw Error(TSR_E_INTERNAL, concat(plugin_text(address_of(device_.api().open)), " fails its self-test: ", what, " ",
                                       problem, ", and reported no error; use another --device"));
  }

  void write(const std::vector<Operand>& operands) {
    std::fill_n(host_.at(0), kBytes, std::byte{0xFF});
    for (size_t i = 0; i < operands.size(); ++i)
      for (size_t k = 0; k < operands[i].before.size(); ++k)
        store(operands[i], k, host_.at(i * kOperandBytes));
    call(device_.api().copy, works_.get(), memory_.at(0), host_.at(0), kBytes);
  }

  /// Through the other stream. The memory that was copied from is cleared by the host in between.
  void read() {
    call(device_.api().event_record, done_.get(), works_.get());
    call(device_.api().stream_wait, reads_.get(), done_.get());
    call_for(timeout_ms_, device_.api().stream_synchronize, works_.get(), timeout_ms_);
    std::fill_n(host_.at(0), kBytes, std::byte{0xEE});
    call(device_.api().copy, reads_.get(), host_.at(0), memory_.at(0), kBytes);
    call_for(timeout_ms_, device_.api().stream_synchronize, reads_.get(), timeout_ms_);
  }

  static void store(const Operand& o, size_t k, std::byte* at) {
    if (o.dtype == TSR_F32) reinterpret_cast<float*>(at)[k] = static_cast<float>(o.before[k]);
    if (o.dtype == TSR_BF16) reinterpret_cast<uint16_t*>(at)[k] = float_to_bf16(static_cast<float>(o.before[k]));
    if (o.dtype == TSR_I64) reinterpret_cast<int64_t*>(at)[k] = static_cast<int64_t>(o.before[k]);
  }
  static double load(const Operand& o, size_t k, const std::byte* at) {
    if (o.dtype == TSR_F32) return static_cast<double>(reinterpret_cast<const float*>(at)[k]);
    if (o.dtype == TSR_BF16) return static_cast<double>(bf16_to_float(reinterpret_cast<const uint16_t*>(at)[k]));
    return static_cast<double>(reinterpret_cast<const int64_t*>(at)[k]);
  }

  void compare(const char* name, const Operand& o, const std::byte* at) const {
    for (size_t k = 0; k < o.after.size(); ++k)
      if (const double got = load(o, k, at); got != o.after[k])
        refuse(name, concat("gave ", got, " instead of ", o.after[k], " in element ", k));
  }

  const Device& device_;
  const int64_t timeout_ms_;
  Arena host_, memory_;
  Look look_;
  std::vector<Arena> workspaces_;
  std::vector<KernelHandle> kernels_;
  const EventHandle done_;
  const StreamHandle works_, reads_;  // last: destroyed first, which waits for the work that uses the other members
};

tsr_op make_op(uint32_t kind, int64_t num_elements) {
  tsr_op op{};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.dtype = op.destination_dtype = TSR_F32;
  op.dims[TSR_DIM_ELEMENTS] = num_elements;
  return op;
}

/// An op of a segment, on [2, 3]. Not a product: a library for those takes longer to start than all the rest.
void test_segment(DeviceTest& test) {
  tsr_op op = make_op(TSR_OP_ADD, 0);
  op.phase = TSR_PHASE_FORWARD;
  op.gradient_dtype = TSR_F32;
  op.dims[TSR_DIM_BATCH] = 1, op.dims[TSR_DIM_SEQ] = 2, op.dims[TSR_DIM_EMBED] = 3;
  const std::vector<double> bias = {100, 200, 300}, a = {1, 2, 3, 4, 5, 6}, b = {10, 20, 30, 40, 50, 60};
  test.op("add of values", op,
          {{TSR_SLOT(TSR_ROLE_PARAMETER, 0), TSR_MODE_READ, TSR_F32, bias, bias},
           {TSR_SLOT(TSR_ROLE_INPUT, 0), TSR_MODE_READ, TSR_F32, a, a},
           {TSR_SLOT(TSR_ROLE_INPUT, 1), TSR_MODE_READ, TSR_F32, b, b},
           {TSR_SLOT(TSR_ROLE_OUTPUT, 0),
            TSR_MODE_WRITE,
            TSR_F32,
            std::vector<double>(6),
            {111, 222, 333, 144, 255, 366}}});
}

void test_squares(DeviceTest& test) {
  tsr_op op = make_op(TSR_OP_SUM_SQUARES, 3);
  const tsr_op_range all{0, 3, 0, 1};
  op.ranges = &all;
  op.num_ranges = 1;
  Accumulator sum{};
  for (const float value : {1.0f, 2.0f, 3.0f})
    accumulate_square(sum, value);
  const std::vector<double> zeros(TSR_ACCUMULATOR_LIMBS);
  test.op("sum_squares", op,
          {{kSource, TSR_MODE_READ, TSR_F32, {1, 2, 3}, {1, 2, 3}},
           {TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_ACCUMULATOR), TSR_MODE_ADD, TSR_I64, zeros,
            std::vector<double>(sum.begin(), sum.end())}});
}

}  // namespace

void test_device(const Device& device, int64_t timeout_ms) {
  DeviceTest test(device, timeout_ms);
  test.fill();
  test.order();
  test.look_after_copies();
  test.capture();
  const double tiny = std::ldexp(1.0, -140);  // a denormal
  test.op("add", make_op(TSR_OP_ADD_INTO, 4),
          {{kSource, TSR_MODE_READ, TSR_F32, {1, 2, 3, tiny}, {1, 2, 3, tiny}},
           {kDestination, TSR_MODE_ADD, TSR_F32, {10, 20, 30, 2 * tiny}, {11, 22, 33, 3 * tiny}}});
  tsr_op cast = make_op(TSR_OP_CAST, 3);
  cast.destination_dtype = TSR_BF16;
  test.op("cast", cast,
          {{kSource, TSR_MODE_READ, TSR_F32, {1, -2, 257}, {1, -2, 257}},
           {kDestination, TSR_MODE_WRITE, TSR_BF16, {0, 0, 0}, {1, -2, 256}}});
  test_segment(test);
  test_squares(test);
}

}  // namespace tessera::host
