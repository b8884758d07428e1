#include "storage/striped_files.h"

#include <algorithm>

#include "storage/block_sums.h"
#include "tessera/error.hpp"

namespace tessera::host {

std::vector<uint64_t> stripe_shares(size_t num_folders, uint64_t num_bytes) {
  const uint64_t num_stripes = num_bytes / kStripeBytes, rest = whole_blocks(num_bytes % kStripeBytes);
  std::vector<uint64_t> shares;
  for (uint64_t i = 0; i < num_folders; ++i) {
    const uint64_t own = num_stripes / num_folders + (i < num_stripes % num_folders ? 1 : 0);
    shares.push_back(own * kStripeBytes + (i == num_stripes % num_folders ? rest : 0));
  }
  return shares;
}

StripedFiles::StripedFiles(const std::vector<std::string>& folders, uint64_t num_bytes, const Log& log,
                           const std::string& flag) {
  if (folders.empty()) throw Error(TSR_E_INVALID_ARGUMENT, "files need --offload-dir FOLDER, on a local disk");
  const std::vector<uint64_t> shares = stripe_shares(folders.size(), num_bytes);
  for (size_t i = 0; i < folders.size(); ++i)
    files_.emplace_back(folders[i], shares[i], log, flag);
}

Piece StripedFiles::first_piece(uint64_t offset, uint64_t end) const {
  const uint64_t stripe = offset / kStripeBytes, within = offset % kStripeBytes;
  return {.file = stripe % files_.size(),
          .file_offset = stripe / files_.size() * kStripeBytes + within,
          .offset = offset,
          .num_bytes = std::min(end - offset, kStripeBytes - within)};
}

}  // namespace tessera::host
