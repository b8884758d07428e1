// Launches are timed on their stream, by a function of the host between any two of them, so the time that a launch
// takes on this thread is hidden as long as it is shorter than the kernel. The time from a launch until the host knows
// of its end is measured apart: it is what a step pays where it waits.
//
// Operands are filled with one byte whose repetition is a small positive number in every floating-point dtype (0.0115
// in float32 and bf16, 1.06 in fp16): a device may be faster on zeros.

#include "rates/kernel_bench.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "rates/op_rate.h"
#include "tessera/ranges.hpp"

namespace tessera::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kByte = 0x3C;
constexpr uint64_t kAlignment = 4096;
constexpr int64_t kWaitMs = 600'000;

tsr_status read_clock(void* time, tsr_error*) noexcept {
  *static_cast<Clock::time_point*>(time) = Clock::now();
  return TSR_OK;
}

KernelBench::Seconds seconds_of(std::vector<double> all) {
  return {median(all), *std::ranges::min_element(all)};
}

tsr_op make_op(uint32_t kind, tsr_dtype dtype) {
  tsr_op op{};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.dtype = op.destination_dtype = dtype;
  op.gradient_dtype = TSR_F32;
  return op;
}

}  // namespace

tsr_op product_op(tsr_dtype dtype, int64_t n) {
  tsr_op op = make_op(TSR_OP_LINEAR, dtype);
  op.phase = TSR_PHASE_FORWARD;
  op.dims[TSR_DIM_BATCH] = 1;
  op.dims[TSR_DIM_SEQ] = op.dims[TSR_DIM_IN] = op.dims[TSR_DIM_OUT] = n;
  return op;
}

tsr_op zero_op(int64_t n) {
  tsr_op op = make_op(TSR_OP_ZERO, TSR_F32);
  op.dims[TSR_DIM_ELEMENTS] = n;
  return op;
}

tsr_op cast_op(int64_t n) {
  tsr_op op = make_op(TSR_OP_CAST, TSR_F32);
  op.destination_dtype = TSR_BF16;
  op.dims[TSR_DIM_ELEMENTS] = n;
  return op;
}

KernelBench::KernelBench(const Device& device, const tsr_op& op)
    : device_(device), stream_(make_stream(device, "compute")) {
  std::vector<tsr_slot_spec> slots;
  std::vector<uint64_t> places;
  uint64_t num_bytes = 0, operand_bytes = 0;
  for (tsr_slot_spec slot : describe(device.api(), op)) {
    // A product without its bias, so that operations and bytes are those of the product alone.
    if (slot.flags & TSR_SLOT_OPTIONAL) continue;
    slot.flags = 0;
    slots.push_back(slot);
    places.push_back(num_bytes);
    const uint64_t bytes = TSR_NUM_BYTES(slot.dtype, slot.num_elements);
    operand_bytes += bytes;
    num_bytes += round_up<uint64_t>(bytes, kAlignment);
  }
  kernel_ = make_kernel(device, op, slots);
  memory_.emplace(device, TSR_MEMORY_DEVICE, num_bytes);
  for (const uint64_t place : places)
    pointers_.push_back(memory_->at(place));
  call(device.api().fill, stream_.get(), memory_->at(0), kByte, num_bytes);
  wait();
  rate_ = unmeasured(op, operand_bytes);
}

void KernelBench::launch() {
  call(device_.api().launch, kernel_.get(), stream_.get(), pointers_.data(), pointers_.size());
}

void KernelBench::wait() const {
  synchronize(device_, stream_.get(), kWaitMs);
}

KernelBench::Seconds KernelBench::measure(int num_warmups, int num_measured) {
  for (int i = 0; i < num_warmups; ++i)
    launch();
  std::vector<Clock::time_point> times(static_cast<size_t>(num_measured) + 1);
  for (Clock::time_point& time : times) {
    if (&time != times.data()) launch();
    call(device_.api().host_function, stream_.get(), &read_clock, &time);
  }
  wait();
  if (std::ranges::count(times, Clock::time_point()) > 0)
    end_by_early_ok(device_, "a host function between launches had not run");
  std::vector<double> seconds;
  for (size_t i = 1; i < times.size(); ++i)
    seconds.push_back(std::max(1e-9, std::chrono::duration<double>(times[i] - times[i - 1]).count()));
  const Seconds result = seconds_of(std::move(seconds));
  rate_.seconds = result.median;
  return result;
}

KernelBench::Seconds KernelBench::measure_round_trip(int num_measured) {
  std::vector<double> seconds;
  for (int i = 0; i < num_measured; ++i) {
    const auto start = Clock::now();
    launch();
    wait();
    seconds.push_back(seconds_since(start));
  }
  return seconds_of(std::move(seconds));
}

}  // namespace tessera::host
