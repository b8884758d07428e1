// Vector clocks (Fidge 1988, Mattern 1989) over the streams of a device. Two streams and an event:
//
//     stream 0     host_function f: ticket 1   record e           clock of stream 0: {1, 0}, copied into e
//     stream 1                                 wait e  kernel g   clock of stream 1: {1, 0} after the merge
//
// If f fails, the failure is (stream 0, ticket 1), and g is after it since its clock has reached 1 for stream 0:
// a thread that synchronizes stream 1 gets f's error. Kernels themselves run on, since a queue of the GPU cannot
// branch; that is harmless, because their results are not used. Cost: one vector of as many numbers as streams for each
// host function, and one load of a flag for each synchronize as long as nothing has failed.
#include "cuda-device/error_tracker.h"

#include <algorithm>
#include <string>

#include "cuda-device/cuda_error.h"
#include "tessera/error.hpp"

namespace tessera::cuda {
namespace {

// The same sentences as cpu-device.
std::string sentence(const Fault& fault) {
  if (fault.code == kFaultStep)
    return "optimizer: the step count is " + std::to_string(fault.value) +
           "; clip must count the step before the optimizer runs";
  const bool is_label = fault.code == kFaultLabel;
  const std::string name = is_label ? "label " : fault.code == kFaultToken ? "token " : "target ";
  return name + std::to_string(fault.value) + " at position " + std::to_string(fault.position) +
         " of the micro-batch is not in [0, " + std::to_string(fault.limit) + "); the data does not fit the model's " +
         (is_label ? "classes" : "vocabulary");
}

}  // namespace

uint64_t Clock::advance(uint32_t stream) {
  if (stream >= tickets_.size()) tickets_.resize(stream + 1);
  return ++tickets_[stream];
}

void Clock::merge(const Clock& other) {
  if (other.tickets_.size() > tickets_.size()) tickets_.resize(other.tickets_.size());
  for (size_t i = 0; i < other.tickets_.size(); ++i)
    tickets_[i] = std::max(tickets_[i], other.tickets_[i]);
}

// A fault does not say which stream's kernel wrote it. So it is that of all streams there are, and of what is ordered
// after any of them, and a stream that is made later is free of it. A kernel of an old stream that is still running
// then may report once more; that fails the new stream too, which is too much, but loses nothing.
uint32_t ErrorTracker::add_stream(Clock& clock) {
  look_for_fault();
  const std::lock_guard lock(mutex_);
  if (saw_fault_) {
    auto* fault = static_cast<volatile Fault*>(fault_);
    fault->code = 0;
    std::atomic_thread_fence(std::memory_order_release);
    fault->num_found = 0;
    saw_fault_ = false;
  }
  const uint32_t index = num_streams_.fetch_add(1, std::memory_order_relaxed);
  clock.advance(index);
  return index;
}

bool ErrorTracker::Failure::is_before(const Clock& clock) const {
  if (of == Of::device) return true;
  if (of == Of::work) return ticket <= clock[stream];
  for (uint32_t old = 0; old < stream; ++old)
    if (clock[old] > 0) return true;
  return false;
}

void ErrorTracker::fail(const Work& work, const tsr_error& error) {
  const std::lock_guard lock(mutex_);
  failures_.push_back({Failure::Of::work, work.stream, work.ticket, error});
  any_.store(true, std::memory_order_release);
}

void ErrorTracker::fail_device(const tsr_error& error) {
  const std::lock_guard lock(mutex_);
  failures_.push_back({Failure::Of::device, 0, 0, error});
  any_.store(true, std::memory_order_release);
}

// The list is in the order of time, so the first that matches is the cause and what follows it are consequences.
std::optional<tsr_error> ErrorTracker::first_before(const Clock& clock) {
  look_for_fault();
  if (!any_.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  for (const Failure& failure : failures_)
    if (failure.is_before(clock)) return failure.error;
  return std::nullopt;
}

// A caller that asks about work after the kernel that wrote the fault has seen the kernel end, and with it the fault.
void ErrorTracker::look_for_fault() {
  const auto* fault = static_cast<const volatile Fault*>(fault_);
  if (fault->code == 0) return;
  std::atomic_thread_fence(std::memory_order_acquire);
  const std::lock_guard lock(mutex_);
  if (saw_fault_ || fault->code == 0) return;  // a new stream may have cleared it meanwhile
  saw_fault_ = true;
  Failure failure{Failure::Of::streams, num_streams_.load(std::memory_order_relaxed), 0, {}};
  fill_error(&failure.error, fault->code == kFaultStep ? TSR_E_FAILED_PRECONDITION : TSR_E_INVALID_ARGUMENT, kName,
             sentence({fault->code, fault->value, fault->position, fault->limit}));
  failures_.push_back(failure);
  any_.store(true, std::memory_order_release);
}

void ErrorTracker::run(const Work& work, tsr_host_function function, void* user) noexcept {
  tsr_error error{};
  const tsr_status status = guard(&error, kName, [&] {
    if (first_before(work.clock)) return;
    const tsr_status result = function(user, &error);
    if (result != TSR_OK && error.message[0] == '\0')
      fill_error(&error, result, kName,
                 "a host function failed with status " + std::to_string(result) + " and gave no message");
    error.code = result;
    if (result != TSR_OK) fail(work, error);
  });
  if (status != TSR_OK) guard(nullptr, kName, [&] { fail(work, error); });
}

}  // namespace tessera::cuda
