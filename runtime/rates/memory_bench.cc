// Copies of a large buffer to another one. A copy reads each byte once and writes it once, and both count, as in STREAM
// (McCalpin, 1995). The first copy touches the memory and does not count; of the others the median does.

#include "rates/memory_bench.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace tessera::host {
namespace {

constexpr int kRounds = 10;
constexpr int64_t kCopyMs = 60'000;

}  // namespace

double measure_memory(const Device& device, uint64_t num_bytes) {
  const StreamHandle stream = make_stream(device, "bench memory");
  const Arena from(device, TSR_MEMORY_DEVICE, num_bytes), to(device, TSR_MEMORY_DEVICE, num_bytes);
  const auto wait = [&] { synchronize(device, stream.get(), kCopyMs); };
  const auto copy = [&] { call(device.api().copy, stream.get(), to.at(0), from.at(0), num_bytes); };
  call(device.api().fill, stream.get(), from.at(0), 1u, num_bytes);
  copy();  // the first touches the memory
  wait();
  std::vector<double> rates;
  for (int i = 0; i < kRounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    copy();
    wait();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    rates.push_back(2 * static_cast<double>(num_bytes) / time.count());
  }
  std::ranges::sort(rates);
  return rates[rates.size() / 2];
}

}  // namespace tessera::host
