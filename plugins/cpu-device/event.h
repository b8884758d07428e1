// Events: how one stream waits for another.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "tessera/device.hpp"

namespace tessera::cpu {

/// The records of one event, numbered from 1. Shared by the event and by the work that names it, so an event may be
/// destroyed while that work is still queued.
class EventState {
 public:
  /// Begins a record and returns its number. [issue-thread]
  uint64_t begin_record();
  /// Number of the last record begun; 0 if there was none. [issue-thread]
  uint64_t last_record() const;
  /// The work before the record is done, or failed with `error`.
  void complete(uint64_t record, const std::optional<tsr_error>& error);
  /// Blocks until the record is complete; its error, if it failed.
  std::optional<tsr_error> wait(uint64_t record);

 private:
  mutable std::mutex mutex_;
  std::condition_variable completed_;
  uint64_t num_begun_ = 0;
  uint64_t num_completed_ = 0;
  std::optional<tsr_error> error_;  // of the last complete record
};

class Event final : public DeviceEvent {
 public:
  const std::shared_ptr<EventState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<EventState> state_ = std::make_shared<EventState>();
};

}  // namespace tessera::cpu
