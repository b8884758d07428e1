// The settings of a job, with defaults filled in.
#pragma once

#include <string>

#include "job/job.h"

namespace tessera::host {

/// The text of config.json (config/settings/settings_file.h): all settings of the job, with the mesh and its
/// strategies, the length of sequences, the order of the data, the threads of a rank, and every option of every plugin
/// that it uses. Settings that follow from the format of the data stay null. `num_threads`: of a rank.
std::string resolved_config(const Job& job, int num_threads);

}  // namespace tessera::host
