// One range of bytes over unnamed files in several folders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"
#include "storage/unnamed_file.h"

namespace tessera::host {

/// What is transferred at once: long enough for a disk's full speed, and short enough that 16 in flight take little
/// memory.
inline constexpr uint64_t kStripeBytes = uint64_t{1} << 20;

/// A range within one stripe.
struct Piece {
  size_t file = 0;           ///< index
  uint64_t file_offset = 0;  ///< bytes
  uint64_t offset = 0;       ///< in the whole range, bytes
  uint64_t num_bytes = 0;    ///< at most kStripeBytes
};

/// The bytes in each of so many folders, in whole blocks.
std::vector<uint64_t> stripe_shares(size_t num_folders, uint64_t num_bytes);

/// Bytes [0, num_bytes) over the folders' files: stripe s is in file s % F as its stripe s / F. Stripes of two folders:
///
///     range    0   1   2   3   4            folder A   0   2   4
///                                           folder B   1   3
class StripedFiles {
 public:
  /// Reserves `num_bytes`, rounded up to whole blocks. Throws what UnnamedFile throws, and INVALID_ARGUMENT without any
  /// folder.
  StripedFiles(const std::vector<std::string>& folders, uint64_t num_bytes, const Log& log,
               const std::string& flag = "--offload-dir");

  const UnnamedFile& file(size_t index) const { return files_[index]; }
  /// The part of [offset, end) in the stripe of `offset`.
  Piece first_piece(uint64_t offset, uint64_t end) const;

 private:
  std::vector<UnnamedFile> files_;
};

}  // namespace tessera::host
