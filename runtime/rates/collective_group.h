// A group of ranks that measures collectives: its own communicator, and the stream that it works on.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "exec/communicators.h"
#include "exec/device.h"
#include "exec/watch/collective_clock.h"
#include "exec/watch/stall.h"

namespace tessera::host {

/// Borrows what `setup` points to, and the device. After an error nothing accesses submitted memory any more, and the
/// group cannot be used again. All functions: [control-thread].
class CollectiveGroup {
 public:
  /// Creates the communicator, which all members do at the same time; the name is this group's alone. Throws what the
  /// communicator reports.
  CollectiveGroup(const CommunicatorSetup& setup, const Device& device, const GroupMember& member);
  ~CollectiveGroup();
  CollectiveGroup(const CollectiveGroup&) = delete;
  CollectiveGroup& operator=(const CollectiveGroup&) = delete;

  int position() const { return position_; }
  int num_ranks() const { return num_ranks_; }
  const Device& device() const { return device_; }
  tsr_stream* stream() const { return stream_.get(); }
  /// Its stream is a CPU's.
  bool is_on_host() const { return clock_.has_value(); }

  /// Bytes of workspace that the collective needs.
  uint64_t workspace_bytes(const tsr_collective& collective) const;
  /// Enqueues it; stream, time-out and number are the group's.
  void submit(tsr_collective collective);
  /// Waits for everything submitted. Throws its error, and CANCELLED if the job ends meanwhile. Ends the run if a
  /// collective exceeds its time-out by 5 % and two seconds; on a stream that is not the host's, if all together exceed
  /// theirs, and a minute.
  void wait();

 private:
  void stop(bool has_failed) noexcept;
  void check_time(Stall& stall);

  const CommunicatorSetup setup_;
  const Device& device_;
  const int position_, num_ranks_;
  const std::string name_;
  std::optional<CollectiveClock> clock_;  ///< as in a step: on the host
  std::deque<tsr_collective> submitted_;  ///< and not waited for
  StreamHandle stream_;
  tsr_comm* comm_ = nullptr;
  uint64_t num_collectives_ = 0, num_waited_ = 0;  ///< submitted, and of these done
};

}  // namespace tessera::host
