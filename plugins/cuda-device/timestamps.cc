// CUDA gives the time between two events, not the time of one. So a read records one more event on an idle stream and
// looks at the host's clock before and after: the times of all others follow from how long before it they were.
//
//     host   -- before -- record, synchronize -- after --
//     GPU    ... event i ..... event k ....... [known]        time of i = (before + after) / 2 - elapsed(i, known)
//
// It does so some times, and takes a time with little between before and after.
#include "cuda-device/timestamps.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <string>

#include "cuda-device/cuda_error.h"

namespace tessera::cuda {
namespace {

constexpr int kNumTrials = 4, kMaxTries = 12;

int64_t monotonic_ns() {
  std::timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

Timestamps::Timestamps(const Context& context, uint64_t count) : context_(context) {
  context_.make_current();
  try {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cudaEventCreateWithFlags(&known_, cudaEventDefault), "cudaEventCreateWithFlags");
    events_.resize(count);
    is_written_.resize(count);
    for (cudaEvent_t& event : events_)
      check(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreateWithFlags");
  } catch (...) {
    destroy();
    throw;
  }
}

Timestamps::~Timestamps() {
  context_.try_make_current();
  destroy();
}

void Timestamps::destroy() noexcept {
  for (const cudaEvent_t event : events_)
    if (event) cudaEventDestroy(event);
  if (known_) cudaEventDestroy(known_);
  if (stream_) cudaStreamDestroy(stream_);
}

void Timestamps::write(Stream& stream, uint64_t index) {
  if (index >= events_.size())
    throw Error(TSR_E_INVALID_ARGUMENT, "timestamp " + std::to_string(index) + " of " + std::to_string(events_.size()));
  stream.record_time(events_[index]);
  is_written_[index] = true;
}

int64_t Timestamps::synchronize_clocks() {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int i = 1;; ++i) {
    const int64_t before = monotonic_ns();
    check(cudaEventRecord(known_, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(known_), "cudaEventSynchronize");
    const int64_t between = monotonic_ns() - before;
    // The event has the time of its last record only, so the first ones show what little is.
    if ((i > kNumTrials && between <= least + least / 4) || i == kMaxTries) return before + between / 2;
    least = std::min(least, between);
  }
}

void Timestamps::read(int64_t* times_ns) {
  context_.make_current();
  const int64_t known_ns = synchronize_clocks();
  for (size_t i = 0; i < events_.size(); ++i) {
    times_ns[i] = 0;
    if (!is_written_[i]) continue;
    float before_ms = 0;
    check(cudaEventElapsedTime(&before_ms, events_[i], known_), "cudaEventElapsedTime");
    times_ns[i] = known_ns - std::llround(double{before_ms} * 1e6);
    is_written_[i] = false;
  }
}

}  // namespace tessera::cuda
