// The folder of --out: its files, and which folders may be used.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/output_file.h"

namespace tessera::host {

// The files of rank 0.
inline constexpr std::string_view kConfigFile = "config.json", kMetricsFile = "metrics.jsonl", kPlanText = "plan.txt",
                                  kPlanJson = "plan.json", kStepDrawing = "step.svg", kReportFile = "report.html";

/// Notes in the log of a rank: what comes before the reason when it fails, and a part of the line with which it begins.
inline constexpr std::string_view kFails = "fails: ", kBegins = " begins, process ";

/// "log.rank3.txt"
std::string log_file_name(int rank);

/// Whether the folder has the record of a run: metrics or a configuration that tessera wrote.
bool has_record(const std::string& folder);

/// Why a run may not be recorded in the folder, as a sentence; empty if it may. Only a run that resumes may use a
/// folder that has a record. Without `overwrite`, files with these names that tessera did not write are not replaced;
/// inputs of the job never are. Creates nothing.
std::string refusal_of_record(const std::string& folder, bool resumes, bool overwrite,
                              const std::vector<JobInput>& inputs);

/// Why nothing can be written into the folder, as a sentence; empty if it can, or nothing has its name yet. A full disk
/// does not count.
std::string obstacle_to_record(const std::string& folder);

/// A warning when a run that resumes from `resume` is recorded in a folder whose last run neither saved there nor
/// resumed from there, by its config.json; empty when there is none. Throws what read_settings() throws.
std::string doubt_of_record(const std::string& folder, const std::string& resume);

/// Removes a file with the name of the metrics file that holds no metrics, once --overwrite allows it.
void remove_other_metrics(const std::string& folder);

/// Writes config.json. A config.json with other settings, of an earlier run, is renamed to the first free one of
/// config.1.json, config.2.json and so on. Throws UNAVAILABLE.
void write_config(const std::string& folder, const std::string& settings);

}  // namespace tessera::host
