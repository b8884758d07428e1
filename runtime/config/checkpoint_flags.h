// The flags about checkpoints, and which of them go together.
#pragma once

#include <string_view>
#include <vector>

#include "config/flag.h"
#include "config/train_config.h"

namespace tessera::host {

/// Their group in the help.
inline constexpr std::string_view kCheckpoints = "Checkpoints";

/// Appends them, in the order of the help.
void add_checkpoint_flags(std::vector<Flag>& flags);
/// --resume latest, which is the folder of --save.
void name_resumed_folder(TrainConfig& config);
/// Throws UsageError for flags of which one excludes the other, or has no effect without it.
void check_checkpoint_flags(const TrainConfig& config);

}  // namespace tessera::host
