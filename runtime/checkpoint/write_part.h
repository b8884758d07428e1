// One rank's file of a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "checkpoint/held_state.h"
#include "checkpoint/index.h"

namespace tessera::host {

/// Elements [begin, end) of what the rank holds of a tensor, raw: in `piece`, which has their size, or where they are
/// anyway. Valid until the next call.
using ReadState = std::function<std::span<const std::byte>(const HeldTensor& tensor, uint64_t begin, uint64_t end,
                                                           std::span<std::byte> piece)>;

/// "rank-00003.safetensors"
std::string rank_file_name(int rank);

/// Writes the tensors that the rank owns into `folder`, in pieces of 4 MiB; `shapes` are those of the whole parameters,
/// by parameter. The file is durable afterwards. Returns what index.json is to say of it. A rank that owns nothing
/// writes no file. Throws UNAVAILABLE with the file and the system's reason.
RankPart write_rank_part(const std::string& folder, int rank, std::span<const HeldTensor> tensors,
                         std::span<const std::vector<uint64_t>> shapes, const ReadState& read);

}  // namespace tessera::host
