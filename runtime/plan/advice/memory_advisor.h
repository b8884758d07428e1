// --device-memory, --host-memory: a job that does not fit is refused before step 1, with flags that would make it fit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/job.h"
#include "plan/memory_report.h"

namespace tessera::host {

/// A change of flags that was planned.
struct Trial {
  std::string flags;         ///< as typed: "--recompute full --nproc 4"
  uint64_t arena_bytes = 0;  ///< of the rank that needs the most
  std::string command = {};  ///< the whole job with them, as it was planned
};

/// A job that needs more of a memory than its limit. All sizes are of that memory.
struct MemoryShortfall {
  uint32_t memory = TSR_MEMORY_DEVICE;  ///< or TSR_MEMORY_HOST
  int rank = 0;                         ///< the rank that needs the most
  uint64_t arena_bytes = 0, limit_bytes = 0;
  uint64_t copy_bytes = 0;  ///< of them, where only they make it too large: those that --save-async copies
  BytesByClass peak;
  /// Of the device: the largest unit, when its parameters and their gradient do not fit even alone.
  std::string unit;
  uint64_t unit_bytes = 0;
  std::vector<Trial> fitting;  ///< in both memories
  Trial smallest;              ///< of all that were tried; the job itself (no flags) when none needs less
};

/// Nothing when the job fits --device-memory and --host-memory, where they are given. Otherwise plans the job once for
/// each of a list of changes that may need less of the memory it lacks, from small changes to large ones
/// (advice/families.cc). Leaves out changes that a flag, a plugin or a check refuses, and those that only add to a
/// change that fits. Logs its progress.
std::optional<MemoryShortfall> find_shortfall(const Job& job, const JobPrograms& programs,
                                              const Log& log = Log(LogLevel::off));

/// The limit, the planned memory by class, and the changes that would fit.
std::string shortfall_text(const MemoryShortfall& shortfall);

/// For a job that a policy refuses, since whatever leaves the run does not fit --device-memory: the end of that
/// sentence, with the changes that would fit. Empty without a limit.
std::string offers_text(const Job& job, const Log& log);

/// Calls `plan`, and adds the changes that would fit to the refusal of a policy.
template <class Plan>
auto with_offers(const Job& job, const Log& log, Plan&& plan) {
  try {
    return plan();
  } catch (const PolicyRefusal& refusal) {
    throw Error(refusal.code(), refusal.what() + offers_text(job, log));
  }
}

}  // namespace tessera::host
