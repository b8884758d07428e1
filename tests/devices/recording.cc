#include "devices/recording.h"

#include <algorithm>

#include "devices/other_device.h"
#include "tessera/error.hpp"

namespace tessera::other {
namespace {

constexpr int kQueueLength = 256;

}  // namespace

bool Stream::is_captured() const {
  const Recording* recording = device_.recording();
  return recording && recording->has(*this);
}

void Stream::begin_capture() {
  device_.begin_capture(*this);
}

std::unique_ptr<Recording> Stream::end_capture() {
  return device_.end_capture(*this);
}

void Stream::launch(Recording& recording) {
  recording.launch(*this);
}

void Stream::submit(std::function<void(DeviceStream&)> work) {
  if (is_captured()) return device_.recording()->add(*this, std::move(work));
  wait_for_room();
  ++num_pending_;
  work(*inner_);
  inner_->host_function(&count_done, this);
}

tsr_status Stream::count_done(void* self, tsr_error*) noexcept {
  --static_cast<Stream*>(self)->num_pending_;
  return TSR_OK;
}

// A stream that has failed counts no more, but ends.
void Stream::wait_for_room() {
  while (num_pending_ >= kQueueLength) {
    try {
      if (inner_->synchronize(1)) num_pending_ = 0;
    } catch (const Error& error) {
      if (error.code() != TSR_E_DEADLINE) throw;
    }
  }
}

std::optional<tsr_error> Stream::synchronize(int64_t timeout_ms) {
  if (is_captured()) throw Error(TSR_E_FAILED_PRECONDITION, "a stream was waited for while it was captured");
  return inner_->synchronize(timeout_ms);
}

void Stream::record(DeviceEvent& given) {
  auto& event = static_cast<Event&>(given);
  if (is_captured()) return device_.recording()->record(*this, event);
  event.recording = nullptr;
  inner_->record(event.inner());
}

void Stream::wait(DeviceEvent& given) {
  auto& event = static_cast<Event&>(given);
  Recording* recording = device_.recording();
  if (recording && event.recording == recording) return recording->wait(*this, event);
  if (is_captured()) throw Error(TSR_E_FAILED_PRECONDITION, "a captured stream waits for an event outside its capture");
  inner_->wait(event.inner());
}

void Stream::copy(void* dst, const void* src, uint64_t num_bytes) {
  submit([to = device_.addresses().real(dst), from = device_.addresses().real(src), num_bytes](DeviceStream& stream) {
    stream.copy(to, from, num_bytes);
  });
}

void Stream::fill(void* dst, uint8_t byte, uint64_t num_bytes) {
  submit([to = device_.addresses().real(dst), byte, num_bytes](DeviceStream& stream) {
    stream.fill(to, byte, num_bytes);
  });
}

void Stream::host_function(tsr_host_function function, void* user) {
  HostCall& in_turn = device_.host_call(function, user);
  submit([&in_turn](DeviceStream& stream) { stream.host_function(&HostCall::run, &in_turn); });
}

void Recording::add(Stream& stream, std::function<void(DeviceStream&)> work) {
  works_.push_back({&stream, std::move(work)});
  ++clocks_[&stream][&stream];
}

void Recording::record(Stream& stream, Event& event) {
  works_.push_back({&stream, [&event](DeviceStream& inner) { inner.record(event.inner()); }});
  event.recording = this;
  event.clock = clocks_[&stream];
}

void Recording::wait(Stream& stream, Event& event) {
  works_.push_back({&stream, [&event](DeviceStream& inner) { inner.wait(event.inner()); }});
  Clock& clock = clocks_[&stream];
  for (const auto& [other, position] : event.clock)
    clock[other] = std::max(clock[other], position);
}

void Recording::check_end(const Stream& stream) const {
  if (&stream != &lead_) throw Error(TSR_E_FAILED_PRECONDITION, "a capture ends on another stream than it began on");
  const Clock& known = clocks_.at(&lead_);
  for (const auto& [other, clock] : clocks_) {
    const auto own = clock.find(other);
    if (own == clock.end() || other == &lead_) continue;
    const auto seen = known.find(other);
    if (seen == known.end() || seen->second < own->second)
      throw Error(TSR_E_FAILED_PRECONDITION, "a stream has not joined the one that its capture began on");
  }
}

void Recording::launch(Stream& stream) {
  const auto order = [&](Stream& before, Stream& after) {
    const auto event = stream.device().create_event();
    before.inner().record(static_cast<Event&>(*event).inner());
    after.inner().wait(static_cast<Event&>(*event).inner());
  };
  for (const auto& [member, clock] : clocks_)
    order(stream, const_cast<Stream&>(*member));
  for (const Work& work : works_)
    work.run(work.stream->inner());
  for (const auto& [member, clock] : clocks_)
    order(const_cast<Stream&>(*member), stream);
}

}  // namespace tessera::other
