// The folder of --out: what is in it, and which folders may become one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/output_file.h"

namespace tessera::host {

// The files of rank 0.
inline constexpr std::string_view kConfigFile = "config.json", kMetricsFile = "metrics.jsonl", kPlanText = "plan.txt",
                                  kPlanJson = "plan.json", kStepDrawing = "step.svg", kReportFile = "report.html";

/// "log.rank3.txt"
std::string log_file_name(int rank);

/// Whether the folder has the record of a run: metrics or a configuration that tessera wrote.
bool has_record(const std::string& folder);

/// Why a run may not be recorded in the folder, as a sentence; empty if it may. A folder that has the record of a run
/// is for runs that resume. Without `overwrite`, files with such names that tessera did not write are left
/// alone; what the job reads always is. Creates nothing.
std::string refusal_of_record(const std::string& folder, bool resumes, bool overwrite,
                              const std::vector<JobInput>& inputs);

/// Removes a file with the name of the metrics that has none: after --overwrite has allowed it.
void remove_other_metrics(const std::string& folder);

/// Writes config.json. One of other settings, of a run before, gets the first free name of config.1.json, config.2.json
/// and so on. Throws UNAVAILABLE.
void write_config(const std::string& folder, const std::string& settings);

}  // namespace tessera::host
