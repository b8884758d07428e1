// What `tessera inspect` says of a checkpoint.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace tessera::host {

/// "dp=2 ddp, tp=2 tensor"; "one rank".
std::string layout_text(const RunDescription& run);

/// The result of Checkpoint::verify; nothing: it was not asked for.
using Damage = std::optional<std::vector<std::string>>;

/// The report, as lines of text or as one JSON object: the index without checksums, and `folder`, `checked`, `damage`.
std::string inspect_text(const Checkpoint& checkpoint, const Damage& damage);
std::string inspect_json(const Checkpoint& checkpoint, const Damage& damage);

}  // namespace tessera::host
