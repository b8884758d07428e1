// Plans every buffer's address before the first step: one arena per memory.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "memory/footprint.h"
#include "program/program.h"

namespace tessera::host {

/// Ratio of an arena to the live peak up to which addresses that need no wait are preferred.
inline constexpr double kDeviceBudget = 1.02;
/// The host's memory is planned with at least this budget: there is plenty of it, and waits between collectives are
/// costly.
inline constexpr double kHostBudget = 4;

/// Bytes of one program in one memory.
struct MemoryUse {
  /// End of the highest buffer of this program, persistent part included.
  uint64_t arena_bytes = 0;
  /// Those of the persistent buffers of the whole run.
  uint64_t persistent_bytes = 0;
  /// Most bytes of transient buffers alive at once in list order, each rounded up to kBufferAlignment: a lower bound
  /// for every plan.
  uint64_t live_peak_bytes = 0;
  /// Index of the first action where that is.
  uint64_t peak_action = 0;
  /// TSR_BUFFER_* -> bytes alive at that action, persistent ones included, all rounded up.
  std::map<uint32_t, uint64_t> peak_bytes_by_kind;

  uint64_t transient_bytes() const { return arena_bytes - persistent_bytes; }
  /// The arena minus what is alive at the peak.
  uint64_t waste_bytes() const { return transient_bytes() - live_peak_bytes; }
};

/// Addresses (bytes from the start of the buffer's memory) by buffer id.
struct MemoryPlan {
  std::map<uint64_t, uint64_t> address;
  std::map<uint32_t, MemoryUse> use;  ///< by TSR_MEMORY_*
};

/// Assigns addresses to the buffers of all programs of one rank, after derive_dependencies.
///  - Persistent buffers of one kind and name are one buffer in all programs (INTERNAL if they disagree on it). Nothing
///    else uses its address.
///  - Transient buffers live from their first to their last binding in list order (see live_ranges.h); one that nothing
///    binds gets no address. Two may share an address if the program already orders them, or if waits from the last
///    uses of one to the first uses of the other can be added; where there are messages not every wait can
///    (AddableWaits).
///  - Addresses that need no wait are preferred as long as the arena stays within `budget` times the live peak, or
///    within what waits everywhere would need. The added waits become dependencies of the programs.
/// Offline first fit, largest first. `guard_bytes` are left free after every buffer (debug mode). Deterministic.
std::vector<MemoryPlan> plan_memory(std::span<Program* const> programs, double budget = kDeviceBudget,
                                    uint64_t guard_bytes = 0);

}  // namespace tessera::host
