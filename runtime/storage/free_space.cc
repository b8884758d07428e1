// Ranks that reserve their space one after another would each see only what the others have left, and the last would be
// refused for a number that is not the job's. So what all need is summed up first, by file system: two folders may be
// on one disk.

#include "storage/free_space.h"

#include <sys/stat.h>

#include <map>

#include "base/concat.h"
#include "storage/striped_files.h"
#include "storage/unnamed_file.h"

namespace tessera::host {
namespace {

struct FileSystem {
  std::string folder;  // the first one on it
  uint64_t needed = 0;
  size_t num_ranks = 0, last_rank = SIZE_MAX;
};

}  // namespace

std::string missing_space(std::span<const SpaceNeed> ranks) {
  std::map<dev_t, FileSystem> file_systems;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<uint64_t> shares = stripe_shares(ranks[rank].folders.size(), ranks[rank].num_bytes);
    for (size_t i = 0; i < shares.size(); ++i) {
      const std::string& folder = ranks[rank].folders[i];
      struct stat info {};
      if (shares[i] == 0 || ::stat(folder.c_str(), &info) != 0) continue;
      FileSystem& found = file_systems.try_emplace(info.st_dev, FileSystem{folder}).first->second;
      found.needed += shares[i];
      if (found.last_rank != rank) ++found.num_ranks;
      found.last_rank = rank;
    }
  }
  for (const auto& [device, found] : file_systems) {
    const std::optional<uint64_t> available = available_bytes(found.folder);
    if (!available || found.needed <= *available) continue;
    const std::string who =
        found.num_ranks == 1 ? "this rank needs " : concat("the ", found.num_ranks, " ranks on this machine need ");
    return concat("--offload-dir ", found.folder, " has ", human_bytes(*available), " free; ", who,
                  human_bytes(found.needed), " there");
  }
  return "";
}

}  // namespace tessera::host
