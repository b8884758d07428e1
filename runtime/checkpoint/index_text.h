// index.json as text.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/index.h"

namespace tessera::host {

/// The text of the file. Its first line holds the crc32c of all lines after it.
std::string print_index(const CheckpointIndex& index);
/// Reads it strictly: known keys of the right types, names of files without a folder, ranges that cover each tensor
/// once, as many checksums as there are bytes. Throws DATA_LOSS for a text that is not what was written,
/// INVALID_ARGUMENT for one that is not a checkpoint's, UNSUPPORTED for a newer version; `where` names the file.
CheckpointIndex parse_index(std::string_view text, const std::string& where);

std::string print_rank_part(const RankPart& part);
RankPart parse_rank_part(std::string_view text, const std::string& where);

}  // namespace tessera::host
