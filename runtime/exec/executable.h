// A program made ready to run: kernels prepared, addresses resolved, events made. Running it allocates nothing.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/communicators.h"
#include "exec/device.h"
#include "program/edit.h"
#include "program/memory.h"
#include "program/program.h"

namespace tessera {

/// What is done beside the program, to find faults. Results must not change by a bit.
struct DebugOptions {
  bool check_memory = false;  ///< NaN fill at the start of each transient buffer's life, guards behind its end
  uint64_t guard_bytes = 0;   ///< as given to the memory planner
  std::optional<uint64_t> stream_delay;  ///< seed of a random delay (up to 200 us) before every action
};

/// What the executables of one rank share. Streams are made on first use and kept.
class ExecutionContext {
 public:
  ExecutionContext(const Device& device, Communicators& comms, std::span<const StrategyOnAxis> strategies,
                   const std::map<uint32_t, Arena>& arenas, DebugOptions debug);

  /// When an exception is on its way, aborts the communicators first: streams end only when their work has.
  ~ExecutionContext();
  ExecutionContext(const ExecutionContext&) = delete;

  const Device& device() const { return device_; }
  Communicators& comms() const { return comms_; }
  const DebugOptions& debug() const { return debug_; }
  tsr_stream* stream(const std::string& name);
  const StrategyOnAxis& strategy(int axis) const;
  void* pointer(const Buffer& buffer, const MemoryPlan& memory, uint64_t offset_elements = 0) const;

 private:
  const Device& device_;
  Communicators& comms_;
  std::span<const StrategyOnAxis> strategies_;
  const std::map<uint32_t, Arena>& arenas_;
  DebugOptions debug_;
  int num_exceptions_ = std::uncaught_exceptions();
  std::map<std::string, StreamHandle> streams_;
};

class Executable {
 public:
  /// Prepares `program`; it, its memory plan and the context outlive this. [control-thread]
  Executable(const Program& program, const MemoryPlan& memory, ExecutionContext& context);
  ~Executable();
  Executable(const Executable&) = delete;

  /// Issues the whole program in list order and waits for its end. When an action fails, or `cancelled` (asked about
  /// once a second) says so, all communicators are aborted, everything outstanding is waited for, and the first error
  /// is thrown; nothing may run on this rank afterwards. [control-thread]
  void run(const std::function<bool()>& cancelled);

 private:
  struct Step;
  struct Preparation;
  void issue(Step& step);
  void finish(const std::function<bool()>& cancelled);
  void stop_after_error();

  const Program& program_;
  ExecutionContext& context_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<KernelHandle> kernels_;
  std::vector<EventHandle> events_;
  std::vector<tsr_stream*> streams_;  // used by the program
};

}  // namespace tessera
