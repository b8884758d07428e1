#include "train/saving/own_folder.h"

#include <filesystem>
#include <string>

#include "base/concat.h"
#include "checkpoint/save_folder.h"
#include "config/usage_error.h"

namespace tessera::host {
namespace {

/// Absolute, without "." and a slash at the end.
std::filesystem::path clean(const std::string& path) {
  return (std::filesystem::absolute(path) / ".").lexically_normal().parent_path();
}

}  // namespace

bool may_start_anew(const TrainConfig& config) {
  return !config.resume.empty() && !config.save.empty() && is_same_folder(clean(config.resume), clean(config.save));
}

bool resumes_in_its_folder(const TrainConfig& config) {
  return may_start_anew(config) || (!config.resume.empty() && !config.save.empty() &&
                                    is_same_folder(clean(config.resume).parent_path(), clean(config.save)));
}

void require_no_other_run(const TrainConfig& config) {
  if (config.save.empty() || resumes_in_its_folder(config)) return;
  if (const std::string why = foreign_checkpoint_in(config.save); !why.empty())
    throw UsageError(concat("--save ", config.save, ": ", why));
  if (config.overwrite) return;
  if (const auto steps = saved_steps(config.save); !steps.empty())
    throw UsageError(concat("--save ", config.save, " holds checkpoints of another run, up to step ", steps.back(),
                            "; give another folder, --resume ", config.save,
                            " to continue that run, or --overwrite to save among them"));
}

}  // namespace tessera::host
