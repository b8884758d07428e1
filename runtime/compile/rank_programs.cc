#include "compile/rank_programs.h"

#include <algorithm>

#include "compile/lower.h"

namespace tessera::host {

std::vector<const Program*> RankPrograms::all() const {
  return programs_of(*this);
}

uint64_t RankPrograms::arena_bytes(uint32_t memory_kind) const {
  uint64_t bytes = 0;
  for (const MemoryPlan& plan : memory)
    if (const auto use = plan.use.find(memory_kind); use != plan.use.end())
      bytes = std::max(bytes, use->second.arena_bytes);
  return bytes;
}

}  // namespace tessera::host
