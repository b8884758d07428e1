// Collectives that never end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/device.h"
#include "exec/watch/arrivals.h"
#include "exec/watch/stall.h"
#include "tessera/communicator.h"

namespace tessera::host {

/// A communicator has its own time-outs, and its error names the missing ranks. This clock is for one that breaks them:
/// its work never ends and reports nothing, and the run would hang.
///
/// It follows the collectives of one communicator in one run of a program: host functions on its stream mark when each
/// begins and ends. Used on CPU streams, where such a function costs next to nothing.
class CollectiveClock {
 public:
  CollectiveClock() = default;
  CollectiveClock(const CollectiveClock&) = delete;
  CollectiveClock& operator=(const CollectiveClock&) = delete;

  /// Nothing is in flight. [issue-thread, like the others]
  void begin_run();
  /// `collective` is submitted between the two calls, and lives until the run has ended.
  void submit_begin(const RankStream& stream, const tsr_collective& collective);
  void submit_end(const RankStream& stream);
  /// Ends the run if the running collective exceeds its time-out by 5 % and two seconds. Call it often (Stall).
  void check(const std::string& communicator, const void* submit);

 private:
  Arrivals begun_, ended_;  // by the stream's thread
  std::vector<const tsr_collective*> submitted_;
  Stall stall_;  // of the running collective
};

}  // namespace tessera::host
