// --device-memory: what does not fit is refused before step 1, with the flags that would make it fit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/job.h"
#include "plan/memory_report.h"

namespace tessera::host {

/// A change of flags, tried.
struct Trial {
  std::string flags;         ///< as they are typed: "--recompute full --nproc 4"
  uint64_t arena_bytes = 0;  ///< of the rank that needs most
};

/// A job that needs more device memory than --device-memory gives.
struct MemoryShortfall {
  int rank = 0;  ///< that needs most
  uint64_t arena_bytes = 0, limit_bytes = 0;
  BytesByClass peak;
  std::vector<Trial> fitting;
  Trial smallest;  ///< of those tried; the job itself (no flags) when none needs less
};

/// Nothing when the job fits or --device-memory is not given. Else plans the job once for each of a list of changes
/// that need less memory, from small changes to large ones: recompute, shard, smaller micro-batches, 16 bits, more
/// ranks, and some of these together. What a flag, a plugin or a check refuses is left out, and what only adds to a
/// change that fits. `log` is told how far that is.
std::optional<MemoryShortfall> find_shortfall(const Job& job, const JobPrograms& programs,
                                              const Log& log = Log(LogLevel::off));

/// Planned and given memory by kind, and what would fit.
std::string shortfall_text(const MemoryShortfall& shortfall);

}  // namespace tessera::host
