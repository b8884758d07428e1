// The self-test of a device at the start of a run: it fills and copies memory, runs functions, and computes a few
// numbers (test_ops.h).
//
//     stream a   copy in, kernel, event                    what each result must be is written here
//     stream b   waits for the event, copies out           to the bit
//
// It finds functions that return OK and do nothing or something else, streams that run work out of order, twice, or do
// not wait for one another or for semaphores, copies of other ranges than they were given, captures that run at once or
// never, and denormals that are flushed to zero. It is not a conformance test: it tries one shape of an op, not all.
// Cost: decision 0043.

#include "exec/self_test/test_device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/concat.h"
#include "exec/self_test/test_ops.h"
#include "exec/self_test/tested_device.h"
#include "guard/call_watch.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr std::byte kLate{77};
constexpr int64_t kSignalMs = 10'000;  // far more than a stream needs to go on

/// What functions on streams use. It outlives the streams: a device may run a function again at any time.
struct FunctionData {
  struct Look {
    const std::byte* at = nullptr;
    std::byte* seen = nullptr;
  };
  Look after_function, after_copy;
  std::array<std::atomic<int>, 3> num_runs{};
};

tsr_status write_late(void* to, tsr_error*) noexcept {
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  *static_cast<std::byte*>(to) = kLate;
  return TSR_OK;
}
tsr_status look(void* user, tsr_error*) noexcept {
  const auto& one = *static_cast<const FunctionData::Look*>(user);
  *one.seen = *one.at;
  return TSR_OK;
}
tsr_status count_run(void* user, tsr_error*) noexcept {
  ++*static_cast<std::atomic<int>*>(user);
  return TSR_OK;
}

std::string byte_text(uint64_t index, std::byte got, std::byte expected) {
  return concat("byte ", index, " at ", std::to_integer<int>(got), " instead of ", std::to_integer<int>(expected));
}

/// Memory that is filled.
void test_fill(const TestedDevice& tested) {
  call(tested.api().fill, tested.works(), tested.memory(), 0x3Fu, TestedDevice::kBytes);
  tested.read();
  for (uint64_t i = 0; i < TestedDevice::kBytes; ++i)
    if (*tested.host(i) != std::byte{0x3F})
      tested.refuse("fill", concat("left ", byte_text(i, *tested.host(i), std::byte{0x3F})));
}

/// Slow work, work that follows it on the same stream, and work on another stream that waits for that.
void test_order(const TestedDevice& tested, FunctionData& data) {
  std::byte *const source = tested.host(0), *const result = tested.host(256), *const seen = tested.host(512);
  data.after_function = {source, seen};
  *source = *result = *seen = std::byte{0};
  call(tested.api().host_function, tested.works(), &write_late, source);
  call(tested.api().host_function, tested.works(), &look, &data.after_function);
  call(tested.api().copy, tested.works(), tested.memory(), source, uint64_t{1});
  call(tested.api().event_record, tested.done(), tested.works());
  call(tested.api().stream_wait, tested.reads(), tested.done());
  call(tested.api().copy, tested.reads(), result, tested.memory(), uint64_t{1});
  tested.wait(tested.reads());
  tested.wait(tested.works());
  if (*result != kLate)
    tested.refuse("a copy", "did not wait for the work before it, on its stream or before an event");
  if (*seen != kLate) tested.refuse("a host function", "did not wait for the one before it on its stream");
}

/// A host function after copies that take far longer than to give it to the stream.
void test_look_after_copies(TestedDevice& tested, FunctionData& data) {
  constexpr uint64_t kLarge = uint64_t{1} << 20;
  std::byte* const from = tested.allocate(TSR_MEMORY_DEVICE, kLarge);
  std::byte* const to = tested.allocate(TSR_MEMORY_HOST, kLarge);
  data.after_copy = {to + kLarge - 1, tested.host()};
  to[kLarge - 1] = *tested.host() = std::byte{0};
  call(tested.api().fill, tested.works(), from, std::to_integer<uint32_t>(kLate), kLarge);
  call(tested.api().copy, tested.works(), to, from, kLarge);
  call(tested.api().host_function, tested.works(), &look, &data.after_copy);
  tested.wait(tested.works());
  if (*tested.host() != kLate) tested.refuse("a host function", "did not wait for the copy before it on its stream");
}

void check_num_runs(const TestedDevice& tested, const FunctionData& data) {
  for (const std::atomic<int>& num_runs : data.num_runs)
    if (num_runs != 1) tested.refuse("a host function", concat("ran ", num_runs.load(), " times instead of once"));
}
void test_num_runs(const TestedDevice& tested, FunctionData& data) {
  for (std::atomic<int>& num_runs : data.num_runs)
    call(tested.api().host_function, tested.works(), &count_run, &num_runs);
  tested.wait(tested.works());
  check_num_runs(tested, data);
}

/// Copies and fills of ranges in the middle of their memory, with everything beside them.
class RangeTest {
 public:
  explicit RangeTest(TestedDevice& tested)
      : tested_(tested),
        host_from_(tested.allocate(TSR_MEMORY_HOST, kBlockBytes)),
        host_to_(tested.allocate(TSR_MEMORY_HOST, kBlockBytes)),
        from_(tested.allocate(TSR_MEMORY_DEVICE, kBlockBytes)),
        to_(tested.allocate(TSR_MEMORY_DEVICE, kBlockBytes)) {
    for (uint64_t i = 0; i < kBlockBytes; ++i)
      host_from_[i] = pattern(i);
    copy(from_, host_from_, kBlockBytes);
    tested_.wait(tested_.works());
  }

  void run() {
    for (const Range& range : kRanges) {
      to_device("a copy from the host to the device", range, pattern,
                [&] { copy(to_ + range.to, host_from_ + range.from, range.num_bytes); });
      to_device("a copy on the device", range, pattern,
                [&] { copy(to_ + range.to, from_ + range.from, range.num_bytes); });
      to_device(
          "a fill of a range", range, [](uint64_t) { return std::byte{0}; },
          [&] { call(tested_.api().fill, tested_.works(), to_ + range.to, 0u, range.num_bytes); });
      to_host(range);
    }
  }

 private:
  /// No offset is that of a page, or the other's; no length is a power of two, or a multiple of a vector's.
  struct Range {
    uint64_t from, to, num_bytes;
  };
  static constexpr Range kRanges[] = {{36, 4100, 1004}, {4157, 1031, 3001}};
  static constexpr uint64_t kBlockBytes = 3 * 4096;
  static constexpr std::byte kBeside{0x5A};

  using Expected = std::byte (*)(uint64_t index);
  /// As if drawn, so that other ranges have other bytes.
  static std::byte pattern(uint64_t index) { return static_cast<std::byte>((index + 1) * 0x9E3779B97F4A7C15u >> 56); }

  void copy(std::byte* to, const std::byte* from, uint64_t num_bytes) const {
    call(tested_.api().copy, tested_.works(), to, from, num_bytes);
  }

  /// `write` writes the range of the device's block.
  void to_device(const char* what, const Range& range, Expected expected, const std::function<void()>& write) const {
    call(tested_.api().fill, tested_.works(), to_, std::to_integer<uint32_t>(kBeside), kBlockBytes);
    write();
    copy(host_to_, to_, kBlockBytes);
    check(what, range, expected);
  }
  void to_host(const Range& range) const {
    std::fill_n(host_to_, kBlockBytes, kBeside);
    copy(host_to_ + range.to, from_ + range.from, range.num_bytes);
    check("a copy from the device to the host", range, pattern);
  }

  /// Waits, and compares the block in the host's memory.
  void check(const char* what, const Range& range, Expected expected) const {
    tested_.wait(tested_.works());
    for (uint64_t i = 0; i < kBlockBytes; ++i) {
      const bool is_inside = range.to <= i && i < range.to + range.num_bytes;
      const std::byte wanted = is_inside ? expected(range.from + i - range.to) : kBeside;
      if (host_to_[i] == wanted) continue;
      if (!is_inside)
        tested_.refuse(what, concat("wrote beside its range: it left ", byte_text(i, host_to_[i], wanted)));
      tested_.refuse(what, concat("left ", byte_text(i - range.to, host_to_[i], wanted)));
    }
  }

  TestedDevice& tested_;
  std::byte *const host_from_, *const host_to_, *const from_, *const to_;
};

/// What is captured on two streams is not run, and each launch runs all of it, where the device captures work.
void test_capture(const TestedDevice& tested) {
  const auto* const table = tested.device().table<tsr_device_capture>(TSR_DEVICE_CAPTURE);
  if (!table) return;
  constexpr uint64_t kHalf = TestedDevice::kBytes / 2;
  const tsr_device_interface& api = tested.api();
  const EventHandle fork = make_event(tested.device()), join = make_event(tested.device());
  const auto fill = [&](uint32_t byte) { call(api.fill, tested.works(), tested.memory(), byte, TestedDevice::kBytes); };
  fill(0);
  call(table->begin, tested.works());
  std::unique_ptr<tsr_graph, void (*)(tsr_graph*)> graph(nullptr, table->destroy);
  try {
    call(api.event_record, fork.get(), tested.works());
    call(api.stream_wait, tested.reads(), fork.get());
    call(api.fill, tested.works(), tested.memory(), 0x3Fu, kHalf);
    call(api.fill, tested.reads(), tested.memory(kHalf), 0x3Fu, kHalf);
    call(api.event_record, join.get(), tested.reads());
    call(api.stream_wait, tested.works(), join.get());
  } catch (const Error&) {  // what failed fails the capture
  }
  try {
    graph.reset(made_by<tsr_graph>(table->end, tested.works()));
  } catch (const Error&) {  // this cannot be captured, and then nothing was run
  }
  tested.read();
  const auto is_all = [&](std::byte byte) {
    return std::ranges::count(std::span(tested.host(), TestedDevice::kBytes), byte) == TestedDevice::kBytes;
  };
  if (!is_all(std::byte{0})) tested.refuse("a capture", "ran what it was to capture");
  for (int launch = 1; graph && launch <= 2; ++launch) {
    fill(0);
    call(table->launch, graph.get(), tested.works());
    tested.read();
    if (!is_all(std::byte{0x3F}))
      tested.refuse(concat("launch ", launch, " of a graph"), "did not run all that it holds");
  }
}

/// A stream waits for a semaphore until the host signals it, and then sees what the host wrote before, where the device
/// has them.
void test_semaphore(const TestedDevice& tested) {
  const auto* const table = tested.device().table<tsr_device_semaphore>(TSR_DEVICE_SEMAPHORE);
  if (!table) return;
  std::unique_ptr<tsr_semaphore, void (*)(tsr_semaphore*)> semaphore(nullptr, table->destroy);
  try {
    semaphore.reset(made_by<tsr_semaphore>(table->create, tested.device().handle()));
  } catch (const Error& e) {
    if (e.code() == TSR_E_UNSUPPORTED) return;  // the driver has no such wait
    throw;
  }
  std::byte *const source = tested.host(0), *const result = tested.host(256);
  *source = *result = std::byte{0};
  call(table->wait, tested.works(), semaphore.get(), 1u);
  call(tested.api().copy, tested.works(), result, source, uint64_t{1});
  write_late(source, nullptr);
  end_with(table->signal, semaphore.get(), 1u);
  if (!tested.has_ended(tested.works(), kSignalMs))  // nothing that the stream uses can be given up
    end_run(tested.refusal("a stream", "did not go on after a semaphore was signaled"));
  if (*result != kLate)
    tested.refuse("a stream", "did not wait for a semaphore, or did not see what was written before");
}

}  // namespace

void test_device(const Device& device, int64_t timeout_ms) {
  FunctionData data;
  TestedDevice tested(device, timeout_ms);
  test_fill(tested);
  test_order(tested, data);
  test_look_after_copies(tested, data);
  test_num_runs(tested, data);
  RangeTest(tested).run();
  test_capture(tested);
  test_semaphore(tested);
  test_ops(tested);
  check_num_runs(tested, data);  // still once
}

}  // namespace tessera::host
