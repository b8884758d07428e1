// The state that the executables of one rank share: devices, streams, memory, communicators.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "exec/communicators.h"
#include "exec/device.h"
#include "memory/memory_plan.h"
#include "program/program.h"
#include "program/strategy_on_axis.h"
#include "storage/file_store.h"

namespace tessera::host {

/// Checks that find faults of programs and plugins. They do not change results by a bit.
struct DebugOptions {
  bool check_memory = false;             ///< fill what is not yet written with NaN, guard the bytes after buffers
  uint64_t guard_bytes = 0;              ///< the same as the memory planner's
  std::optional<uint64_t> stream_delay;  ///< seed of a random delay (up to 200 us) before every action
  bool sums_writes = false;              ///< Executable::sum_writes will be called
};

/// Whether steps are captured, and how the ranks agree on it.
struct GraphOptions {
  bool is_on = true;  ///< --cuda-graph=auto
  /// Called by all ranks at the same step, with whether this one can capture it, and if all can, with whether it has;
  /// returns whether all said yes. The work of communicators must be captured on all ranks or on none.
  std::function<bool(bool yes)> all_agree = [](bool yes) { return yes; };
  /// Reports why a program could not be captured.
  std::function<void(const std::string& why)> warn = [](const std::string&) {};
};

/// The devices of a rank; all one and the same on a CPU. Borrows.
struct RankDevices {
  const Device& device;  ///< computes; has the streams compute, copy_in and copy_out
  const Device& comm;    ///< has the comm streams: those of the device if the communicator takes them
  const Device& host;    ///< has the streams that read and write files, and that of actions on the host
};

/// Streams are created on first use and kept.
class ExecutionContext {
 public:
  ExecutionContext(RankDevices devices, Communicators& comms, std::span<const StrategyOnAxis> strategies,
                   const std::map<uint32_t, Arena>& arenas, FileStore* files, DebugOptions debug, GraphOptions graphs);

  /// During stack unwinding aborts the communicators first: streams end only when their work has.
  ~ExecutionContext();
  ExecutionContext(const ExecutionContext&) = delete;

  const Device& device() const { return devices_.device; }
  const Device& comm_device() const { return devices_.comm; }
  const Device& host_device() const { return devices_.host; }
  Communicators& comms() const { return comms_; }
  /// Where buffers in files are; null when no program has one.
  FileStore* files() const { return files_; }
  const DebugOptions& debug() const { return debug_; }
  const GraphOptions& graphs() const { return graphs_; }
  /// Whether the ranks agree with one another about capturing their steps; equal on all ranks.
  bool captures() const { return graphs_.is_on && device().table<tsr_device_capture>(TSR_DEVICE_CAPTURE); }
  /// A stream of a program, by its index; streams of equal names are one in all programs.
  RankStream stream(const Program& program, uint32_t index);
  /// Waits for work in flight, on failed streams too. Nothing may run afterwards.
  void close_streams() { streams_.clear(); }
  bool has_streams() const { return !streams_.empty(); }
  const StrategyOnAxis& strategy(int index) const;
  void* pointer(const Buffer& buffer, const MemoryPlan& memory, uint64_t offset_elements = 0) const;

 private:
  const RankDevices devices_;
  Communicators& comms_;
  std::span<const StrategyOnAxis> strategies_;
  const std::map<uint32_t, Arena>& arenas_;
  FileStore* const files_;
  const DebugOptions debug_;
  const GraphOptions graphs_;
  int num_exceptions_ = std::uncaught_exceptions();
  std::map<std::string, StreamHandle> streams_;
};

}  // namespace tessera::host
