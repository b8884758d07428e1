// Each rank publishes its machine, its bytes and its folders, which may differ between ranks; the first rank of each
// machine sums up. All wait for the answer, so that no rank reserves space before another has looked at it.

#include "train/offload_space.h"

#include <fstream>
#include <sstream>

#include "base/concat.h"
#include "storage/free_space.h"
#include "tessera/error.hpp"
#include "train/consistency.h"

namespace tessera::host {
namespace {

std::string key_of(int rank) {
  return concat("offload/space/", rank);
}

/// Names alone may be equal on two machines, and one machine may have several containers.
std::string machine() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return concat(host_name(), " ", boot);
}

/// Of the ranks on this machine.
std::vector<SpaceNeed> needs_here(const Job& job, const RankInfo& info) {
  std::vector<SpaceNeed> needs;
  for (int rank = 0; rank < job.mesh.num_ranks(); ++rank) {
    std::istringstream lines(info.store->get(key_of(rank), job.config.start_timeout_ms));
    SpaceNeed need;
    std::string line;
    std::getline(lines, line);
    if (line != machine()) continue;
    std::getline(lines, line);
    need.num_bytes = std::stoull(line);
    while (std::getline(lines, line))
      need.folders.push_back(line);
    needs.push_back(std::move(need));
  }
  return needs;
}

}  // namespace

void check_offload_space(const Job& job, const RankPrograms& programs, const RankInfo& info) {
  if (job.config.offload.empty()) return;
  std::string text = concat(machine(), "\n", programs.arena_bytes(TSR_MEMORY_FILE));
  for (const std::string& folder : job.config.offload_dirs)
    text += "\n" + folder;
  info.store->set(key_of(info.rank), text);
  const std::string missing = info.local_rank == 0 ? missing_space(needs_here(job, info)) : "";
  const std::string first =
      lowest_answer(info, job.mesh.num_ranks(), "offload space", missing, job.config.start_timeout_ms);
  if (!first.empty()) throw Error(TSR_E_RESOURCE_EXHAUSTED, first);
}

}  // namespace tessera::host
