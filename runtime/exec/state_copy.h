// State of a rank, copied to the host's memory while the next step begins.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <span>
#include <vector>

#include "exec/device.h"
#include "exec/execution_context.h"
#include "exec/file_transfer.h"
#include "exec/watch/progress_clock.h"
#include "program/state_place.h"

namespace tessera::host {

/// Memory for one copy of some places, one after another, and the streams that make it. Between begin() and finish()
/// nothing may write to these places: a program's runner calls finish() before an action that does.
class StateCopy {
 public:
  /// Takes the memory, all of it, so that no later copy waits for the system. Places are of persistent buffers of
  /// `program`, which have the addresses of `memory`. Borrows the context. Throws RESOURCE_EXHAUSTED. [control-thread]
  StateCopy(ExecutionContext& context, const Program& program, const MemoryPlan& memory,
            std::span<const StatePlace> places);
  ~StateCopy();
  StateCopy(const StateCopy&) = delete;
  StateCopy& operator=(const StateCopy&) = delete;

  /// Starts to copy, when no program runs and no copy is under way. Does not wait. What it throws wait() throws, too.
  /// [control-thread]
  void begin();
  /// Returns when nothing is copied any more. What the copy failed with is for wait(). Ends the run if the device
  /// copies nothing for longer than ProgressClock allows, or says that it is done when it is not. [control-thread]
  void finish();
  /// The time since begin() that finish() has taken while the device computed nothing. [control-thread]
  double waited_ms() const { return waited_ms_; }

  /// Returns when the copy that begin() has started is complete; throws what it failed with, once finish() has found
  /// out. It has no time-out but finish()'s, so the control thread calls that before it waits for this. [any-thread]
  void wait();
  /// Valid from wait() until the next begin(). [any-thread]
  std::span<const std::byte> bytes() const { return {bytes_.at(0), bytes_.num_bytes()}; }

 private:
  struct Source {
    const void* pointer = nullptr;
    uint64_t address = 0, num_bytes = 0;  // in bytes_
  };

  /// A stream of its own, and what puts its share of a copy on it.
  struct Lane {
    StateCopy& owner;
    const Device& device;
    const char* name;
    void (StateCopy::*copy)(const RankStream& stream);
    StreamHandle stream = {};   // null after it has failed
    bool is_under_way = false;  // guarded by mutex_
  };

  void add(const Program& program, const MemoryPlan& memory, const StatePlace& place, uint64_t address);
  void add_lane(const Device& device, const char* name, void (StateCopy::*copy)(const RankStream& stream));
  void issue(Lane& lane);
  void fail(std::exception_ptr error);
  void copy_memory(const RankStream& stream);
  void copy_files(const RankStream& stream);
  void wait_for(const Lane& lane);
  bool is_computing() const;
  static tsr_status end_lane(void* lane, tsr_error* err) noexcept;

  ExecutionContext& context_;
  tsr_stream* const compute_;
  const int64_t timeout_ms_;
  Arena bytes_;
  std::vector<Source> sources_;
  std::vector<FileCopy> transfers_;
  std::vector<Lane> lanes_;
  ProgressClock progress_;  // of what is in memory: reads of files take as long as they take
  bool is_under_way_ = false;
  double waited_ms_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::exception_ptr error_;  // guarded by mutex_
};

/// The bytes of these places.
uint64_t num_bytes_of(const Program& program, std::span<const StatePlace> places);

}  // namespace tessera::host
