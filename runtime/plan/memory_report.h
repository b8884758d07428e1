// A program's memory by what it holds, in the words of those who train: between steps, at the peak, over time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "memory/memory_plan.h"

namespace tessera::host {

/// What a buffer holds. Buffers of kind `gathered` that no collective fills are copies in the compute dtype; workspaces
/// that collectives bind count as communication; `fetched` are copies in device memory of what an offload policy keeps
/// in another one, where it counts by what it is.
enum class MemoryClass {
  parameters,
  compute_copies,
  gathered,
  gradients,
  optimizer,
  activations,
  saved,
  fetched,
  communication,
  workspace,
  inputs,
  plugin
};
inline constexpr size_t kNumMemoryClasses = 12;

/// "parameters", "compute copies", ...
std::string_view to_string(MemoryClass what);

class BytesByClass {
 public:
  uint64_t& operator[](MemoryClass what) { return bytes_[static_cast<size_t>(what)]; }
  uint64_t operator[](MemoryClass what) const { return bytes_[static_cast<size_t>(what)]; }
  uint64_t total() const;

 private:
  std::array<uint64_t, kNumMemoryClasses> bytes_{};
};

struct LiveBuffer {
  std::string name;
  MemoryClass what = MemoryClass::parameters;
  uint64_t num_bytes = 0;
};

/// Bytes of buffers are rounded up to kBufferAlignment, as in the arena.
struct MemoryReport {
  uint64_t arena_bytes = 0;
  BytesByClass states;              ///< of persistent buffers, which stay between steps
  BytesByClass peak;                ///< alive at the peak, states included
  size_t peak_action = 0;           ///< index of the first action at the peak
  std::vector<LiveBuffer> largest;  ///< alive at the peak, largest first
  std::vector<uint64_t> live;       ///< alive at each action, states included
  BytesByClass most;                ///< of each class, alive at its own peak

  /// The arena minus what is alive at the peak.
  uint64_t waste_bytes() const { return arena_bytes - peak.total(); }
};

/// The report of a program with its plan, for one memory; lists at most `num_largest` buffers.
MemoryReport memory_report(const Program& program, const MemoryPlan& plan, uint32_t memory = TSR_MEMORY_DEVICE,
                           size_t num_largest = 8);

}  // namespace tessera::host
