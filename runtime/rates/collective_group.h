// Ranks that measure collectives: a communicator of their own, and the stream that it works on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "exec/communicators.h"
#include "exec/device.h"

namespace tessera::host {

/// The members of a group, seen from one of them.
struct GroupMember {
  int position = 0;
  std::vector<int32_t> world_ranks;  ///< of all members
  std::string name;                  ///< the same on all members, and of this group alone
};

/// Borrows what `setup` points to, and the device. After an error of a function nothing touches memory that was
/// submitted, and the group cannot be used any more. All functions: [control-thread].
class CollectiveGroup {
 public:
  /// Creates the communicator, which all members do at the same time. Throws what it reports.
  CollectiveGroup(const CommunicatorSetup& setup, const Device& device, const GroupMember& member);
  ~CollectiveGroup();
  CollectiveGroup(const CollectiveGroup&) = delete;
  CollectiveGroup& operator=(const CollectiveGroup&) = delete;

  int position() const { return position_; }
  int num_ranks() const { return num_ranks_; }
  const Device& device() const { return device_; }
  tsr_stream* stream() const { return stream_.get(); }

  /// Bytes of workspace that the collective needs.
  uint64_t workspace_bytes(const tsr_collective& collective) const;
  /// Enqueues it; stream, time-out and number are the group's.
  void submit(tsr_collective collective);
  /// Until all that was submitted is done. Throws its error, and CANCELLED when the job ends meanwhile.
  void wait();

 private:
  void stop(bool has_failed) noexcept;

  const CommunicatorSetup setup_;
  const Device& device_;
  const int position_, num_ranks_;
  StreamHandle stream_;
  tsr_comm* comm_ = nullptr;
  uint64_t num_collectives_ = 0, num_waited_ = 0;  ///< submitted, and of these done
};

}  // namespace tessera::host
