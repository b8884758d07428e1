// The commands that a program runs as: one for each action, with everything resolved. Internal to exec/.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/communicators.h"
#include "exec/cross_device_sync.h"
#include "exec/device.h"
#include "exec/file_transfer.h"
#include "program/strategy_on_axis.h"

namespace tessera::host {

/// A seeded pause on a stream: debug option stream_delay.
struct Delay {
  uint64_t state = 0;  // of a 64-bit linear congruential generator; advanced at each run, on the stream's thread
  static tsr_status run(void* self, tsr_error* err) noexcept;
};

/// Bytes after a buffer's end that no action may write: filled when the buffer's live range begins, copied to the host
/// and compared when it ends.
struct RedZone {
  const std::byte* begin = nullptr;
  Arena seen;  // host memory that the device copies to without waiting
  std::string buffer;
  static constexpr uint32_t kByte = 0xA5;
  static tsr_status check(void* self, tsr_error* err) noexcept;
};

/// Checks whether all values that an action has written, copied to the host, are finite.
struct FiniteCheck {
  const std::byte* begin = nullptr;
  uint64_t num_elements = 0;
  tsr_dtype dtype = 0;
  size_t position = 0;                   // of the action
  std::atomic<size_t>* first = nullptr;  // position of the first action of the run with such a value
  std::byte* seen = nullptr;             // memory of the host, used by one stream

  uint64_t num_bytes() const { return TSR_NUM_BYTES(dtype, num_elements); }
  static tsr_status check(void* self, tsr_error* err) noexcept;
};

/// The checksum of what an action has written, in the runs that take them (Executable::sum_writes).
struct WriteSum {
  const std::byte* begin = nullptr;
  uint64_t num_bytes = 0;
  std::byte* seen = nullptr;  // memory of the host, used by one stream
  uint32_t crc32c = 0;        // of the last such run

  static tsr_status take(void* self, tsr_error* err) noexcept;
};

/// A plugin's own arithmetic, called on a stream, on operands in the host's memory.
struct StrategyCall {
  const StrategyOnAxis* strategy = nullptr;
  std::string label;            // "#12 copy_out call h.0 of strategy psgd on axis dp (tag 3)"
  std::vector<int64_t> shapes;  // one dim each
  std::vector<tsr_tensor_view> operands;
  tsr_op optimizer{};
  std::vector<tsr_op_range> ranges;
  tsr_call call{};  // of the members above
  static tsr_status run(void* self, tsr_error* err) noexcept;
};

struct Fill {
  void* pointer;
  uint32_t byte;
  uint64_t num_bytes;
};

/// The work that is issued for one action.
struct Command {
  enum class Kind { kernel, copy, file, collective, call, nothing };
  Kind kind = Kind::nothing;
  RankStream stream;
  std::vector<tsr_event*> waits;                // of the same device
  std::vector<CrossDeviceSync*> awaited_syncs;  // to wait for, from the other device
  tsr_event* record = nullptr;
  CrossDeviceSync* sync = nullptr;  // to signal
  tsr_kernel* kernel = nullptr;
  std::vector<void*> pointers;  // kernel: in slot order; copy: destination, source
  uint64_t num_bytes = 0;       // copy
  FileCopy transfer;            // file
  Communicator* comm = nullptr;
  tsr_collective collective{};
  std::vector<tsr_transfer> transfers;
  std::string label;
  StrategyCall call;
  Delay delay;
  bool delayed = false;
  std::vector<Fill> fills;                          // debug: before the action
  std::vector<std::unique_ptr<RedZone>> red_zones;  // debug: after it
  std::vector<WriteSum*> sums;
  std::vector<FiniteCheck> finite_checks;  // debug: of its results
};

/// The commands of a program, in list order, and the objects that they use.
struct Commands {
  std::vector<std::unique_ptr<Command>> list;
  std::vector<RankStream> streams;  // used by the program, by first use
  std::vector<KernelHandle> kernels;
  std::vector<EventHandle> events;
  std::vector<std::unique_ptr<CrossDeviceSync>> syncs;
  std::map<tsr_stream*, Arena> seen;  // debug: what finite checks copy to
};

}  // namespace tessera::host
