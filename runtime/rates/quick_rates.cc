// One product and one copy predict the cost of a step to within a factor of two, which is enough for a first look at a
// plan. `bench rates` measures every op of the job.
//
// The product is that of 256 tokens with a [768, 768] weight, as in GPT-2 124M. Each of the two runs alone, again and
// again for 30 ms after one run that does not count, with the threads that one rank would have.

#include "rates/quick_rates.h"

#include <chrono>
#include <functional>

#include "base/clock.h"
#include "exec/device.h"
#include "plugins/host_services.h"
#include "program/lower_op.h"
#include "rates/measure.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 0.03;
constexpr uint64_t kCopyBytes = 32 << 20;
constexpr int64_t kTimeoutMs = 10'000;

/// Seconds of one operation on the stream: the mean of as many as fit into a short time, after one as warm-up.
double seconds_of(const RankStream& stream, const std::function<void()>& issue) {
  const auto finish = [&] { synchronize(*stream.device, stream.handle, kTimeoutMs); };
  issue();
  finish();
  const auto start = Clock::now();
  for (int num_times = 1;; ++num_times) {
    issue();
    finish();
    const double seconds = seconds_since(start);
    if (seconds > kSeconds) return seconds / num_times;
  }
}

double product_rate(const Device& device, const RankStream& stream) {
  tsr_op op{};
  op.struct_size = sizeof op;
  op.kind = TSR_OP_LINEAR;
  op.phase = TSR_PHASE_FORWARD;
  op.dtype = op.gradient_dtype = TSR_F32;
  op.dims[TSR_DIM_BATCH] = 1;
  op.dims[TSR_DIM_SEQ] = 256;
  op.dims[TSR_DIM_IN] = op.dims[TSR_DIM_OUT] = 768;
  op = trimmed(op);
  const std::vector<tsr_slot_spec> slots = describe(device.api(), op);
  const KernelHandle kernel = make_kernel(device, op, slots);
  std::vector<uint64_t> offsets;
  uint64_t num_bytes = 0;
  for (const tsr_slot_spec& slot : slots) {
    offsets.push_back(num_bytes);
    num_bytes += (TSR_NUM_BYTES(slot.dtype, slot.num_elements) + 4095) / 4096 * 4096;
  }
  const Arena arena(device, TSR_MEMORY_DEVICE, num_bytes);
  std::vector<void*> pointers;
  for (const uint64_t offset : offsets)
    pointers.push_back(arena.at(offset));
  call(device.api().fill, stream.handle, arena.at(0), uint32_t{0}, num_bytes);
  const double seconds = seconds_of(
      stream, [&] { call(device.api().launch, kernel.get(), stream.handle, pointers.data(), pointers.size()); });
  return num_operations(op) / seconds;
}

double copy_rate(const Device& device, const RankStream& stream) {
  const Arena arena(device, TSR_MEMORY_DEVICE, 2 * kCopyBytes);
  call(device.api().fill, stream.handle, arena.at(0), uint32_t{0}, 2 * kCopyBytes);
  const double seconds = seconds_of(
      stream, [&] { call(device.api().copy, stream.handle, arena.at(0), arena.at(kCopyBytes), kCopyBytes); });
  return 2 * static_cast<double>(kCopyBytes) / seconds;
}

}  // namespace

std::optional<QuickRates> quick_rates(const Job& job) {
  if (!job.computes_on_host()) return std::nullopt;
  try {
    const HostServices host{Log(LogLevel::off)};
    QuickRates rates;
    rates.num_threads = threads_per_rank(job.config, job.mesh.num_ranks());
    const Device device({job.plugins.device.device(), job.options.device.values(), 0,
                         static_cast<uint32_t>(rates.num_threads), host.of(job.plugins.device)});
    const StreamHandle handle = make_stream(device, "compute");
    const RankStream stream{&device, handle.get()};
    rates.operations_per_second = product_rate(device, stream);
    rates.bytes_per_second = copy_rate(device, stream);
    return rates;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace tessera::host
