// Cristian's algorithm (1989): rank 0 answers a message with its time, which lies between sending and receiving. So the
// offset is known to within half of the round trip, and the fastest of several is the best:
//
//     rank r   sent                     received          offset = answered - (sent + received) / 2
//     rank 0          answered                            error <= (received - sent) / 2
//
// Messages go through the store, which ranks use to meet anyway. Rank 0 serves one rank at a time; a rank's first
// message waits for its turn, so it is the slowest.

#include "train/profile/clocks.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "base/concat.h"
#include "exec/record/step_times.h"

namespace tessera::host {
namespace {

constexpr int kNumMessages = 16;

std::string key(const char* what, int rank, int message) {
  return concat("clocks/", what, '/', rank, '/', message);
}

ClockOffset ask(KeyValueStore& store, int rank, int64_t timeout_ms, const Clock& clock) {
  ClockOffset best{0, INT64_MAX};
  for (int i = 0; i < kNumMessages; ++i) {
    const int64_t sent = clock.now_ns();
    store.set(key("question", rank, i), "");
    const int64_t answered = std::stoll(store.get(key("answer", rank, i), timeout_ms));
    const int64_t received = clock.now_ns(), error = (received - sent + 1) / 2;
    if (error < best.error_ns) best = {answered - (sent + received) / 2, error};
  }
  return best;
}

void answer(KeyValueStore& store, int rank, int64_t timeout_ms, const Clock& clock) {
  for (int i = 0; i < kNumMessages; ++i) {
    store.get(key("question", rank, i), timeout_ms);
    store.set(key("answer", rank, i), std::to_string(clock.now_ns()));
  }
}

}  // namespace

Clock own_clock() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> time_namespace{};
  const ssize_t length = ::readlink("/proc/self/ns/time", time_namespace.data(), time_namespace.size());
  std::string name = boot + " ";
  if (length > 0) name.append(time_namespace.data(), static_cast<size_t>(length));
  // Without a boot id every process is assumed to have its own clock: comparing equal clocks does no harm.
  if (boot.empty()) name += concat(::getpid());
  return {name, monotonic_ns};
}

ClockOffset compare_clocks(KeyValueStore& store, int rank, int num_ranks, int64_t timeout_ms, const Clock& clock) {
  const std::string first = "clocks/rank 0", asks = "clocks/asks/", errors = "clocks/error/";
  if (rank > 0) {
    const bool is_same = store.get(first, timeout_ms) == clock.name;
    store.set(concat(asks, rank), is_same ? "no" : "yes");
    const ClockOffset offset = is_same ? ClockOffset() : ask(store, rank, timeout_ms, clock);
    store.set(concat(errors, rank), std::to_string(offset.error_ns));
    return offset;
  }
  store.set(first, clock.name);
  ClockOffset largest;
  for (int other = 1; other < num_ranks; ++other) {
    if (store.get(concat(asks, other), timeout_ms) == "yes") answer(store, other, timeout_ms, clock);
    largest.error_ns = std::max<int64_t>(largest.error_ns, std::stoll(store.get(concat(errors, other), timeout_ms)));
  }
  return largest;
}

}  // namespace tessera::host
