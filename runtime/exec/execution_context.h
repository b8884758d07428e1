// What the executables of one rank share: devices, streams, memory, communicators.
#pragma once

#include <exception>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "compile/pass_runner.h"
#include "exec/communicators.h"
#include "exec/device.h"
#include "exec/graph.h"
#include "memory/memory_plan.h"
#include "program/program.h"

namespace tessera::host {

/// What is done beside the program, to find faults. Results must not change by a bit.
struct DebugOptions {
  bool check_memory = false;  ///< NaN fill at the start of each transient buffer's life, guards after its end
  uint64_t guard_bytes = 0;   ///< as given to the memory planner
  std::optional<uint64_t> stream_delay;  ///< seed of a random delay (up to 200 us) before every action
};

/// The two devices of a rank, which are one where the communicator takes the device's streams. Borrows.
struct RankDevices {
  const Device& device;  ///< computes; its are compute, copy_in and copy_out
  const Device& comm;    ///< comm streams are its
};

/// Streams are made on first use and kept.
class ExecutionContext {
 public:
  ExecutionContext(RankDevices devices, Communicators& comms, std::span<const StrategyOnAxis> strategies,
                   const std::map<uint32_t, Arena>& arenas, DebugOptions debug, GraphOptions graphs);

  /// When an exception is on its way, aborts the communicators first: streams end only when their work has.
  ~ExecutionContext();
  ExecutionContext(const ExecutionContext&) = delete;

  const Device& device() const { return devices_.device; }
  const Device& comm_device() const { return devices_.comm; }
  Communicators& comms() const { return comms_; }
  const DebugOptions& debug() const { return debug_; }
  const GraphOptions& graphs() const { return graphs_; }
  /// Whether ranks ask one another about the capture of their steps: equal on all.
  bool captures() const { return graphs_.is_on && device().table<tsr_device_capture>(TSR_DEVICE_CAPTURE); }
  /// A stream of a program, by its index; streams of equal names are one in all programs.
  RankStream stream(const Program& program, uint32_t index);
  /// Waits for what is in flight, of failed streams too. Nothing may run afterwards.
  void close_streams() { streams_.clear(); }
  const StrategyOnAxis& strategy(int axis) const;
  void* pointer(const Buffer& buffer, const MemoryPlan& memory, uint64_t offset_elements = 0) const;

 private:
  const RankDevices devices_;
  Communicators& comms_;
  std::span<const StrategyOnAxis> strategies_;
  const std::map<uint32_t, Arena>& arenas_;
  const DebugOptions debug_;
  const GraphOptions graphs_;
  int num_exceptions_ = std::uncaught_exceptions();
  std::map<std::string, StreamHandle> streams_;
};

}  // namespace tessera::host
