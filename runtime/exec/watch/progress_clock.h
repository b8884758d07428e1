// Work of a device that never ends, or that has not ended when the device says so.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "exec/device.h"
#include "exec/watch/arrivals.h"
#include "exec/watch/stall.h"

namespace tessera::host {

/// For a device whose work neither ends nor fails, where the run would hang, and for one that reports the end too
/// early: host functions between the actions of a run, and after them, count how far its streams have come.
class ProgressClock {
 public:
  /// The device of the actions. One that runs steps as graphs is marked less often: a host function keeps a stream of a
  /// GPU for 30 us, and a processor's for next to nothing. Beside a device, the host's streams are marked after each
  /// action: a collective there may take as long as its time-out.
  explicit ProgressClock(const Device& device);
  ProgressClock(const ProgressClock&) = delete;
  ProgressClock& operator=(const ProgressClock&) = delete;

  /// Nothing is in flight. [issue-thread, like the others]
  void begin_run();
  /// Action `index` has been issued to the stream.
  void issued(size_t index, const RankStream& stream);
  /// All actions have been issued, to these streams: each gets a last mark.
  void issued_all(std::span<const RankStream> streams);
  /// The issuing thread begins to wait for something else, which has the whole time.
  void begin_wait() { stall_.begin(); }
  /// Streams are busy. Ends the run, blaming the device, if none of them has come to a mark for the time-out, a tenth
  /// and ten seconds. Call it often (Stall).
  void check(int64_t timeout_ms);
  /// The devices say that all is done. Ends the run, blaming one that has not come to each of its marks once.
  void check_end() const;

 private:
  struct Marks {
    uint64_t num_issued = 0;
    Arrivals passed;  // by threads of streams
  };
  void mark(const RankStream& stream);

  const Device& device_;
  const size_t actions_of_mark_;
  std::map<const Device*, Marks> marks_;
  Stall stall_;
};

}  // namespace tessera::host
