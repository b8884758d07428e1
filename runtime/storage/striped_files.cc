#include "storage/striped_files.h"

#include <algorithm>

#include "storage/block_sums.h"
#include "tessera/error.hpp"

namespace tessera::host {

StripedFiles::StripedFiles(const std::vector<std::string>& folders, uint64_t num_bytes, const Log& log) {
  if (folders.empty()) throw Error(TSR_E_INVALID_ARGUMENT, "files need --offload-dir FOLDER, on a local disk");
  const uint64_t num_stripes = num_bytes / kStripeBytes, rest = whole_blocks(num_bytes % kStripeBytes);
  for (uint64_t i = 0; i < folders.size(); ++i) {
    const uint64_t own = num_stripes / folders.size() + (i < num_stripes % folders.size() ? 1 : 0);
    files_.emplace_back(folders[i], own * kStripeBytes + (i == num_stripes % folders.size() ? rest : 0), log);
  }
}

Piece StripedFiles::first_piece(uint64_t offset, uint64_t end) const {
  const uint64_t stripe = offset / kStripeBytes, within = offset % kStripeBytes;
  return {.file = stripe % files_.size(),
          .file_offset = stripe / files_.size() * kStripeBytes + within,
          .offset = offset,
          .num_bytes = std::min(end - offset, kStripeBytes - within)};
}

}  // namespace tessera::host
