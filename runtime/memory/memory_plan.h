// Every buffer's address, before the first step: one arena per memory.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "program/program.h"

namespace tessera::host {

/// Every buffer starts on a multiple of this many bytes.
inline constexpr uint64_t kBufferAlignment = 256;

/// The host's memory is planned with at least this budget: it is less scarce than waits of one collective for another
/// are costly.
inline constexpr double kHostBudget = 4;

/// Bytes of one program in one memory.
struct MemoryUse {
  /// Highest address used by this program, persistent part included.
  uint64_t arena_bytes = 0;
  /// Of the persistent buffers of the whole run.
  uint64_t persistent_bytes = 0;
  /// Most bytes of transient buffers alive at once in list order, each rounded up to kBufferAlignment: no plan needs
  /// less.
  uint64_t live_peak_bytes = 0;
  /// Index of the first action where that is.
  uint64_t peak_action = 0;
  /// TSR_BUFFER_* -> bytes alive at that action, persistent ones included, all rounded up.
  std::map<uint32_t, uint64_t> peak_bytes_by_kind;

  uint64_t transient_bytes() const { return arena_bytes - persistent_bytes; }
  /// Arena over what is alive at the peak.
  uint64_t waste_bytes() const { return transient_bytes() - live_peak_bytes; }
};

/// Addresses (bytes from the start of the buffer's memory) by buffer id.
struct MemoryPlan {
  std::map<uint64_t, uint64_t> address;
  std::map<uint32_t, MemoryUse> use;  ///< by TSR_MEMORY_*
};

/// Places the buffers of all programs of one rank, after derive_dependencies. A persistent buffer is the same in all
/// programs that have a buffer of its kind and name (INTERNAL if they disagree on it) and gets one address; it lives
/// always. Transient ones live from their first to their last binding in list order (inputs from the start, scalars and
/// accumulators always; one that nothing binds gets no address). Two share an address if the program already orders
/// them, or if the host may add the wait from the last uses of one to the first uses of the other: never a wait that
/// starts at a `send` or `exchange`. Places that need no wait come first, as long as the arena stays within `budget`
/// (ratio over the live peak) or what waits everywhere would need. Adds those waits to the programs' dependencies.
/// Offline first fit, largest first. `guard_bytes` are left free after every buffer (debug mode). Deterministic.
std::vector<MemoryPlan> plan_memory(std::span<Program* const> programs, double budget = 1.02, uint64_t guard_bytes = 0);

}  // namespace tessera::host
