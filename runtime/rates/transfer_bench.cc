// Each direction alone, both at once, and both beside the op that takes most of a step. What they keep of their speed
// there is measured against both at once, so that what they lose to one another does not count twice.
//
// A transfer of n bytes takes t(n) = a + n / b; a comes from transfers of two sizes.

#include "rates/transfer_bench.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "guard/plugin_calls.h"
#include "storage/block_sums.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using Clock = std::chrono::steady_clock;
using Stop = std::function<bool()>;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kCopyBytes = 16 * kMiB;
constexpr uint64_t kFileBytes = 256 * kMiB;  // of each direction: more than a drive's own memory holds for long
constexpr uint64_t kSmallBytes = 64 * 1024;
constexpr double kSeconds = 1;  // of each measurement
constexpr int64_t kCopyMs = 60'000;

Stop after(double seconds) {
  return [start = Clock::now(), seconds] { return seconds_since(start) >= seconds; };
}

/// Calls `move`, which returns the bytes that it moved, until `stop`; bytes a second.
double rate_of(const std::function<uint64_t()>& move, const Stop& stop) {
  const auto start = Clock::now();
  uint64_t num_bytes = 0;
  do
    num_bytes += move();
  while (!stop());
  return static_cast<double>(num_bytes) / seconds_since(start);
}

double share(double together, double alone) {
  return std::clamp(together / alone, 1e-3, 1.0);
}

/// Two arenas on each side, so that both directions can be at work.
class CopyPair {
 public:
  explicit CopyPair(const Device& device)
      : device_(device),
        device_memory_(device, TSR_MEMORY_DEVICE, 2 * kCopyBytes),
        host_memory_(device, TSR_MEMORY_HOST, 2 * kCopyBytes),
        in_stream_(make_stream(device, "fetch")),
        out_stream_(make_stream(device, "evict")) {
    call(device.api().fill, in_stream_.get(), device_memory_.at(0), 0u, 2 * kCopyBytes);
    call(device.api().copy, in_stream_.get(), host_memory_.at(0), device_memory_.at(0), 2 * kCopyBytes);
    wait();
  }

  uint64_t move(bool in, bool out) const {
    if (in) call(device_.api().copy, in_stream_.get(), device_memory_.at(0), host_memory_.at(0), kCopyBytes);
    if (out)
      call(device_.api().copy, out_stream_.get(), host_memory_.at(kCopyBytes), device_memory_.at(kCopyBytes),
           kCopyBytes);
    wait();
    return (uint64_t{in} + uint64_t{out}) * kCopyBytes;
  }

 private:
  void wait() const {
    synchronize(device_, in_stream_.get(), kCopyMs);
    synchronize(device_, out_stream_.get(), kCopyMs);
  }

  const Device& device_;
  Arena device_memory_, host_memory_;
  StreamHandle in_stream_, out_stream_;  // end first, and wait for what uses the memory
};

/// A store with memory for both directions, which have halves of their own.
class StoreBench {
 public:
  StoreBench(const FileStoreOptions& options, uint64_t chunk_bytes, const Log& log)
      : chunk_bytes_(chunk_bytes), store_(options, log), in_(memory()), out_(memory()) {
    std::fill_n(out_.get(), chunk_bytes, std::byte{0x5A});
  }

  /// Reads at a random place.
  uint64_t read_anywhere(uint64_t num_bytes) {
    store_.read(generator_() % (kFileBytes / num_bytes) * num_bytes, {in_.get(), num_bytes}, "what is measured");
    return num_bytes;
  }
  /// One transfer, the next in its half.
  uint64_t move(bool is_write, uint64_t num_bytes) {
    uint64_t& next = is_write ? next_write_ : next_read_;
    if (next + num_bytes > kFileBytes) next = 0;
    if (is_write)
      store_.write(kFileBytes + next, {out_.get(), num_bytes}, "what is measured");
    else
      store_.read(next, {in_.get(), num_bytes}, "what is measured");
    next += num_bytes;
    return num_bytes;
  }
  uint64_t chunk_bytes() const { return chunk_bytes_; }
  /// Writes all of it once: a file's first write also makes its extents, and what was never written is not read.
  void fill() {
    for (uint64_t offset = 0; offset < 2 * kFileBytes; offset += chunk_bytes_)
      store_.write(offset, {out_.get(), std::min(chunk_bytes_, 2 * kFileBytes - offset)}, "what is measured");
  }

  /// Both directions, each in a thread, until `stop`; bytes a second of both.
  double both(const Stop& stop) {
    std::exception_ptr error;
    double written = 0;
    std::thread writer([&] {
      try {
        written = rate_of([&] { return move(true, chunk_bytes_); }, stop);
      } catch (...) {
        error = std::current_exception();
      }
    });
    double read = 0;
    try {
      read = rate_of([&] { return move(false, chunk_bytes_); }, stop);
    } catch (...) {
      writer.join();
      throw;
    }
    writer.join();
    if (error) std::rethrow_exception(error);
    return read + written;
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;

  Memory memory() const {
    Memory memory(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, chunk_bytes_)));
    if (!memory) throw std::bad_alloc();
    return memory;
  }

  const uint64_t chunk_bytes_;
  FileStore store_;
  Memory in_, out_;
  uint64_t next_read_ = 0, next_write_ = 0;
  std::minstd_rand generator_;
};

}  // namespace

CopyRates measure_copies(const Device& device, const KernelLoad& compute) {
  const CopyPair pair(device);
  const auto rate = [&](bool in, bool out, const Stop& stop) {
    return rate_of([&] { return pair.move(in, out); }, stop);
  };
  rate(true, true, after(kSeconds / 10));  // whose memory is touched for the first time
  CopyRates rates;
  rates.in_bytes_per_second = rate(true, false, after(kSeconds / 4));
  rates.out_bytes_per_second = rate(false, true, after(kSeconds / 4));
  const double both = rate(true, true, after(kSeconds / 4));
  std::vector<double> beside;
  rates.beside_compute.compute = compute.share_kept(
      kSeconds / 2, [&](const Stop& computes) { beside.push_back(rate(true, true, [&] { return !computes(); })); });
  rates.beside_compute.copies = share(median(beside), both);
  return rates;
}

FileRates measure_files(FileStoreOptions options, uint64_t chunk_bytes, const KernelLoad& compute, const Log& log) {
  options.num_bytes = 2 * kFileBytes;
  StoreBench store(options, std::clamp(whole_blocks(chunk_bytes), kMiB, kFileBytes / 2), log);
  store.fill();
  const uint64_t chunk = store.chunk_bytes();
  FileRates rates;
  rates.read_bytes_per_second = rate_of([&] { return store.move(false, chunk); }, after(kSeconds));
  rates.write_bytes_per_second = rate_of([&] { return store.move(true, chunk); }, after(kSeconds));
  rates.both_bytes_per_second = store.both(after(2 * kSeconds));
  const double small = rate_of([&] { return store.move(false, kSmallBytes); }, after(kSeconds / 4));
  // a = t(small) - small / b; noise may make it negative, where it counts as 0.
  rates.seconds_per_transfer =
      std::max(0.0, static_cast<double>(kSmallBytes) * (1 / small - 1 / rates.read_bytes_per_second));
  rates.random_bytes_per_second = rate_of([&] { return store.read_anywhere(kSmallBytes); }, after(kSeconds / 4));
  std::vector<double> beside;
  rates.beside_compute.compute = compute.share_kept(
      2 * kSeconds, [&](const Stop& computes) { beside.push_back(store.both([&] { return !computes(); })); });
  rates.beside_compute.copies = share(median(beside), rates.both_bytes_per_second);
  return rates;
}

}  // namespace tessera::host
