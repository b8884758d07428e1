// What is called step-N is complete, whenever the power goes: a checkpoint is made under another name, all its files
// and that folder are made durable, and one rename gives it its name. `latest` follows, then older ones go: each is
// first renamed back, so that a crash leaves no half checkpoint under a good name.
//
//     mkdir step-10.partial -> files, fsync each -> fsync the folder -> rename to step-10 -> fsync DIR
//       -> latest.partial, fsync, rename to latest, fsync DIR -> the same for best, if it is
//       -> rename step-7 to step-7.partial, remove it beside the next steps
//
// A checkpoint of the same step, of a run that went back, trades places with the new one in one rename.

#include "checkpoint/save_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>

#include "base/concat.h"
#include "base/durable_file.h"
#include "checkpoint/index.h"
#include "config/usage_error.h"

namespace tessera::host {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kPartial = ".partial", kRankFile = "rank-";
constexpr const char *kLatest = "latest", *kBest = "best";

[[noreturn]] void fail(const char* what, const std::string& path, int error) {
  throw Error(TSR_E_UNAVAILABLE, concat("cannot ", what, " ", path, ": ", std::strerror(error)));
}

void rename_entry(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail("rename", from, errno);
}

/// The names in a folder; none when it is not there.
std::vector<std::string> names_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory) fail("read the folder", folder, error.value());
  return names;
}

/// Whether a checkpoint may have such a file, when it is complete or while it is made.
/// By names alone: a folder is deleted only if all that it holds could have come from a save.
bool is_of_checkpoint(std::string_view file) {
  if (file.ends_with(kPartial)) file.remove_suffix(kPartial.size());
  return file == kIndexName || file == kConfigName || file.starts_with(kRankFile);
}

/// Why `path` is not ours to replace or remove, as a clause; empty: it is, or nothing is there.
std::string why_foreign(const std::string& path) {
  std::error_code unknown;
  const fs::file_status status = fs::symlink_status(path, unknown);
  if (!fs::exists(status)) return "";
  if (!fs::is_directory(status)) return concat(path, " has the name of a checkpoint, and is not a folder");
  for (const std::string& name : names_in(path))
    if (!is_of_checkpoint(name))
      return concat(path, " has the name of a checkpoint, and holds ", name, ", which no checkpoint has");
  return "";
}

void require_ours(const std::string& path) {
  if (const std::string why = why_foreign(path); !why.empty())
    throw Error(TSR_E_UNAVAILABLE, concat(why, "; move it away"));
}

void remove_folder(const std::string& path) {
  require_ours(path);
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail("remove", path, error.value());
}

bool is_partial(std::string_view name) {
  return name.starts_with(kPrefix) && name.ends_with(kPartial);
}

/// What `latest` or `best` says; nothing when it cannot be read, or is not the name of a step.
std::optional<int64_t> named_step(const std::string& folder, const std::string& name) {
  try {
    std::string text = read_text_file(folder + "/" + name, 256);
    if (text.ends_with('\n')) text.pop_back();
    return step_of_name(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Without slashes at its end.
fs::path clean_path(const std::string& path) {
  const fs::path clean = fs::path(path).lexically_normal();
  return clean.has_filename() ? clean : clean.parent_path();
}

/// For what may have been meant: the index of a checkpoint, or one of its files.
void refuse_file(const std::string& given) {
  std::error_code not_there;
  if (!fs::is_regular_file(given, not_there)) return;
  const std::string folder = fs::path(given).parent_path().string();
  const bool is_in_one = fs::path(given).filename() == kIndexName && !folder.empty();
  throw UsageError(concat(given, " is a file; give ",
                          is_in_one ? concat("the folder of the checkpoint, ", folder)
                                    : std::string("the folder of a checkpoint, or one that holds step-N folders")));
}

}  // namespace

std::string step_folder_name(int64_t step) {
  char name[40];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
  return name;
}

std::optional<int64_t> step_of_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  // Printed again, so that neither step-7 nor step-00000007.partial is taken for step-00000007.
  if (error != std::errc() || step < 0 || step_folder_name(step) != name) return std::nullopt;
  return step;
}

std::vector<int64_t> saved_steps(const std::string& folder) {
  std::vector<int64_t> steps;
  for (const std::string& name : names_in(folder))
    if (const auto step = step_of_name(name)) steps.push_back(*step);
  std::ranges::sort(steps);
  return steps;
}

bool is_same_folder(const fs::path& a, const fs::path& b) {
  std::error_code not_there;
  return a == b || fs::equivalent(a, b, not_there);
}

std::string named_checkpoint(const std::string& given) {
  const fs::path path = clean_path(given);
  const std::string name = path.filename().string();
  if (name != kLatest && name != kBest) return given;
  const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
  const auto step = named_step(folder, name);
  return step ? folder + "/" + step_folder_name(*step) : given;
}

CheckpointChoice choose_checkpoint(const std::string& name) {
  const std::string given = named_checkpoint(name);
  refuse_file(given);
  if (step_of_name(clean_path(given).filename().string()) || name_is_there(given + "/" + std::string(kIndexName)))
    return {{given}, true, ""};
  std::vector<int64_t> steps = saved_steps(given);
  CheckpointChoice choice;
  if (steps.empty()) return choice;
  const auto latest = named_step(given, kLatest);
  if (latest && std::ranges::count(steps, *latest))
    std::erase_if(steps, [&](int64_t step) { return step > *latest; });
  else
    choice.note = concat(given, "/", kLatest,
                         latest ? concat(" names step ", *latest, ", which is not there")
                                : std::string(" is missing or does not name a step"),
                         "; the newest step is taken");
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    choice.folders.push_back(given + "/" + step_folder_name(*step));
  return choice;
}

std::string removal_text(const std::string& checkpoint) {
  return concat("the checkpoint ", checkpoint, " was removed while it was read; a run that saves beside it may keep ",
                "only its newest (--keep): run this again, or read a copy");
}

std::string foreign_checkpoint_in(const std::string& folder) {
  for (const std::string& name : names_in(folder)) {
    if (!step_of_name(name) && !is_partial(name)) continue;
    const std::string why = why_foreign(folder + "/" + name);
    if (!why.empty()) return concat(why, "; move it away, or give another folder");
  }
  return "";
}

void make_save_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("make the folder", folder, error.value());
}

NewCheckpoint::NewCheckpoint(std::string folder, int64_t step) : folder_(std::move(folder)), step_(step) {}

std::string NewCheckpoint::path() const {
  return concat(folder_, "/", step_folder_name(step_), kPartial);
}

void NewCheckpoint::begin() const {
  make_save_folder(folder_);
  require_ours(folder_ + "/" + step_folder_name(step_));
  remove_folder(path());
  std::error_code error;
  if (!fs::create_directory(path(), error) || error) fail("make the folder", path(), error ? error.value() : EEXIST);
}

void NewCheckpoint::commit() const {
  const std::string name = step_folder_name(step_), final_path = folder_ + "/" + name;
  sync_folder(path());
  if (!name_is_there(final_path)) {
    rename_entry(path(), final_path);
  } else if (::renameat2(AT_FDCWD, path().c_str(), AT_FDCWD, final_path.c_str(), RENAME_EXCHANGE) != 0) {
    // A file system without exchange: for a moment neither has the name, and `latest` falls back to an older step.
    const std::string old = final_path + ".old" + std::string(kPartial);
    remove_folder(old);
    rename_entry(final_path, old);
    rename_entry(path(), final_path);
  }
  sync_folder(folder_);
}

void NewCheckpoint::name_latest() const {
  write_durably(folder_ + "/" + kLatest, step_folder_name(step_) + "\n");
}

void NewCheckpoint::name_best() const {
  if (name_is_there(folder_ + "/" + step_folder_name(step_)) && named_step(folder_, kBest) != step_)
    write_durably(folder_ + "/" + kBest, step_folder_name(step_) + "\n");
}

void NewCheckpoint::retire_older(int64_t keep, int64_t best_step) const {
  std::vector<int64_t> steps = saved_steps(folder_);
  std::erase_if(steps, [&](int64_t step) { return step > step_; });
  if (keep == 0 || static_cast<int64_t>(steps.size()) <= keep) return;
  steps.resize(steps.size() - static_cast<size_t>(keep));
  // After the newest were taken out: the best one is kept beside them, and is not one of the `keep`.
  std::erase(steps, named_step(folder_, kBest).value_or(-1));
  std::erase(steps, best_step);
  for (const int64_t step : steps) {
    const std::string old = folder_ + "/" + step_folder_name(step), away = old + std::string(kPartial);
    if (!why_foreign(old).empty()) continue;
    remove_folder(away);
    rename_entry(old, away);
  }
}

void NewCheckpoint::remove_unnamed() const {
  for (const std::string& name : names_in(folder_)) {
    const std::string path = folder_ + "/" + name;
    if (is_partial(name) && why_foreign(path).empty()) remove_folder(path);
  }
}

void NewCheckpoint::name_no_best() const {
  const std::string path = folder_ + "/" + kBest;
  if (named_step(folder_, kBest) && ::unlink(path.c_str()) != 0) fail("remove", path, errno);
}

void NewCheckpoint::abandon() const noexcept {
  try {
    remove_folder(path());
  } catch (const std::exception&) {  // the next run tries it again
  }
}

}  // namespace tessera::host
