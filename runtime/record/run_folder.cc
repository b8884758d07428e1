// A run's folder holds files with fixed names, and each may only replace a file of its kind. A folder that has a record
// is refused unless the run resumes, so that the records of unrelated runs are never mixed.
//
// Metrics, settings and drawings are known by their first bytes. Logs and plans have no such beginning; they are taken
// for ours in a folder that has a record.

#include "record/run_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <utility>

#include "base/concat.h"
#include "base/durable_file.h"
#include "base/metrics.h"
#include "base/read_only_file.h"
#include "checkpoint/save_folder.h"
#include "config/settings/settings_file.h"
#include "plan/drawing/step_svg.h"

namespace tessera::host {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxConfigBytes = 1 << 20;

using IsOurs = std::function<bool(std::string_view)>;

std::string in_folder(const std::string& folder, std::string_view name) {
  return (fs::path(folder) / name).string();
}

/// Of a checkpoint, the folder that it is in.
fs::path save_folder_of(const std::string& given) {
  const fs::path path = named_checkpoint(given);
  const bool is_checkpoint = step_of_name(path.filename().string()).has_value();
  std::error_code error;
  return fs::weakly_canonical(is_checkpoint ? path.parent_path() : path, error);
}

/// Checks the file with this name in `folder`, before it is written.
std::string refusal_of_file(const std::string& folder, std::string_view name, const IsOurs& is_ours, bool overwrite,
                            const std::vector<JobInput>& inputs) {
  const std::string path = in_folder(folder, name);
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) {
    for (const JobInput& input : inputs)
      if (input.would_read && input.would_read(path))
        return concat("--out ", folder, " would receive a file ", name, ", which the next run would read for ",
                      input.flag, " (", input.path, "); give another folder");
    return "";
  }
  return refusal_of({.flag = "--out", .path = path, .is_ours = is_ours, .overwrite = overwrite, .inputs = inputs});
}

}  // namespace

std::string log_file_name(int rank) {
  return concat("log.rank", rank, ".txt");
}

bool has_record(const std::string& folder) {
  return begins_like_metrics(beginning_of(in_folder(folder, kMetricsFile), Output::kJudgedBytes)) ||
         begins_like_settings(beginning_of(in_folder(folder, kConfigFile), Output::kJudgedBytes));
}

std::string refusal_of_record(const std::string& folder, bool resumes, bool overwrite,
                              const std::vector<JobInput>& inputs) {
  if (const std::string refusal = refusal_of_folder("--out", folder, inputs); !refusal.empty()) return refusal;
  if (const std::string obstacle = obstacle_to_record(folder); !obstacle.empty()) return obstacle;
  const bool has = has_record(folder);
  const IsOurs of_record = [has](std::string_view) { return has; };  // files without a beginning of their own
  const std::string log = log_file_name(0);
  const std::pair<std::string_view, IsOurs> files[] = {{kConfigFile, begins_like_settings},
                                                       {kMetricsFile, begins_like_metrics},
                                                       {kStepDrawing, begins_like_step_svg},
                                                       {kPlanText, of_record},
                                                       {kPlanJson, of_record},
                                                       {log, of_record}};
  for (const auto& [name, is_ours] : files)
    if (const std::string refusal = refusal_of_file(folder, name, is_ours, overwrite, inputs); !refusal.empty())
      return refusal;
  if (has && !resumes)
    return concat("--out ", folder,
                  " has the record of a run; give another folder, or continue that run with --resume");
  return "";
}

std::string obstacle_to_record(const std::string& folder) {
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0 || errno == ENOENT) return "";
  return concat("--out ", folder, " cannot be written: ", std::strerror(errno),
                "; give a folder in which this user may make files, or make this one writable");
}

std::string doubt_of_record(const std::string& folder, const std::string& resume) {
  const std::string config = in_folder(folder, kConfigFile);
  if (resume.empty() || !begins_like_settings(beginning_of(config, Output::kJudgedBytes))) return "";
  std::string known;
  for (const FileSetting& setting : read_settings(config)) {
    if ((setting.key != "save" && setting.key != "resume") || setting.values.empty()) continue;
    if (save_folder_of(setting.values[0]) == save_folder_of(resume)) return "";
    known += concat(known.empty() ? "" : ", ", "--", setting.key, " ", setting.values[0]);
  }
  return concat("--out ", folder, " has the record of a run with ", known.empty() ? "no --save" : known,
                ", and this run continues ", resume,
                "; if that is another run's, the record is now of both: give each run a folder of its own");
}

void remove_other_metrics(const std::string& folder) {
  const std::string path = in_folder(folder, kMetricsFile);
  std::error_code error;
  if (fs::is_regular_file(path, error) && !begins_like_metrics(beginning_of(path, Output::kJudgedBytes)))
    fs::remove(path);
}

void write_config(const std::string& folder, const std::string& settings) {
  const std::string path = in_folder(folder, kConfigFile);
  std::error_code error;
  if (fs::exists(path, error) && read_text_file(path, kMaxConfigBytes) != settings) {
    int number = 1;
    while (fs::exists(in_folder(folder, concat("config.", number, ".json"))))
      ++number;
    fs::rename(path, in_folder(folder, concat("config.", number, ".json")));
  }
  write_durably(path, settings);
}

}  // namespace tessera::host
