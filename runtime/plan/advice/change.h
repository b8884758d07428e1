// A change of a job's flags, and what the job would need with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/job.h"

namespace tessera::host {

/// A flag of the host, "recompute", or an option of a plugin, "stream.to".
struct Setting {
  std::string flag, value;
  bool operator==(const Setting&) const = default;

  bool is_option() const { return flag.find('.') != std::string::npos; }
};

using Change = std::vector<Setting>;
/// Changes of one kind, in ascending size: the first that fits is offered.
using Family = std::vector<Change>;

Change operator+(Change a, const Change& b);
/// As typed: "--offload stream --stream.to=file".
std::string text_of(const Change& change);
/// Whether it only adds to the smaller one. The same policies with another option are another change.
bool adds_to(const Change& change, const Change& smaller);

/// The arenas of the ranks that need the most in each memory.
struct NeededMemory {
  uint64_t device_bytes = 0, host_bytes = 0;

  uint64_t of(uint32_t memory) const { return memory == TSR_MEMORY_DEVICE ? device_bytes : host_bytes; }
};
NeededMemory needed_memory(const Job& job, const JobPrograms& programs);
/// Beside the arenas of a rank: the copy of its state in host memory that --save-async writes.
uint64_t copied_bytes(const Job& job, const RankPrograms& programs);

/// A planned change of a job.
struct TriedChange {
  NeededMemory needed;
  std::string command;  ///< the changed job as a command line
};
/// Plans the job with the change, by its command line; nothing when a flag, a plugin or a check refuses it, or when its
/// ranks are in too many classes to plan quickly.
std::optional<TriedChange> try_change(const Job& job, const Change& change);

/// The axis whose ranks see other data and may become more: the innermost one; -1 when there is none.
int batch_axis(const Job& job);

}  // namespace tessera::host
