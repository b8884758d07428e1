// What a folder or pattern after --data holds. Nothing is dropped silently where it matters: of a sequence of shards
// every file must be readable, and a folder that mixes token files with others, or training with validation shards, is
// refused with the pattern to give instead.
//
//     corpus/a.txt, corpus/notes/b.txt, corpus/.git/...     text: a.txt, notes/b.txt
//     fineweb/train_000001.bin, fineweb/train_000002.bin    shards of one sequence
//     fineweb/val_000000.bin beside these                   refused: --data 'fineweb/*train*.bin'
//
// Files are sorted by path, since the order in which a folder lists them differs between machines, and all ranks must
// read one sequence.

#include "data/file_list.h"

#include <fnmatch.h>
#include <glob.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/concat.h"
#include "base/read_only_file.h"
#include "config/usage_error.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void cannot_list(const std::string& folder, std::error_code why) {
  throw Error(TSR_E_UNAVAILABLE, concat("cannot list the folder ", folder, ": ", why.message(),
                                        "; give --data a folder with nothing but data",
                                        why == std::errc::permission_denied ? ", all of it readable" : ""));
}

std::string name_of(const std::string& path) {
  return fs::path(path).filename().string();
}

bool is_token_file(const std::string& path) {
  return path.ends_with(".bin");
}

// A folder of text leaves out dangling links and pipes. A sequence of shards must not miss one unnoticed: it is listed,
// and opening it reports the error.
bool is_file(const fs::directory_entry& entry) {
  std::error_code unknown;
  return entry.is_regular_file(unknown) || (is_token_file(entry.path()) && !entry.is_directory(unknown));
}

// Appends to `contents` and `folders` what is in the folder and not hidden. A link to a folder is not followed: it may
// lead back here.
void list_one(const fs::path& folder, FolderContents& contents, std::vector<fs::path>& folders) {
  std::error_code why, unknown;
  for (fs::directory_iterator entry(folder, why), end; !why && entry != end; entry.increment(why)) {
    if (name_of(entry->path()).starts_with('.')) continue;
    if (is_file(*entry))
      contents.files.push_back(entry->path().generic_string());
    else if (entry->is_directory(unknown) && !entry->is_symlink(unknown))
      folders.push_back(entry->path());
    else
      contents.left_out.push_back(entry->path().generic_string());
  }
  if (why) cannot_list(folder.string(), why);
}

/// Whether the name contains the word, in any case, without a letter before or after it.
bool has_word(const std::string& name, std::string_view word) {
  std::string found;
  for (const char c : name + ".") {
    if (std::isalpha(static_cast<unsigned char>(c))) {
      found += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (std::exchange(found, "") == word) {
      return true;
    }
  }
  return false;
}

/// Whether the file is for evaluation by its name; "train" in it decides first.
bool is_held_out(const std::string& path) {
  const std::string name = name_of(path);
  const auto has = [&name](std::string_view word) { return has_word(name, word); };
  return !has("train") && (has("val") || has("valid") || has("validation") || has("test"));
}

/// "val.bin, by its name for evaluation, beside train.bin"; empty where the files are not of both kinds.
std::string held_out_beside_training(const std::vector<std::string>& files) {
  const auto held_out = std::ranges::find_if(files, is_held_out);
  const auto training = std::ranges::find_if(files, [](const std::string& f) { return has_word(name_of(f), "train"); });
  if (held_out == files.end() || training == files.end()) return "";
  return concat(name_of(*held_out), ", by its name for evaluation, beside ", name_of(*training));
}

// Published folders often hold shards for validation beside those for training.
void refuse_held_out_shards(const std::string& folder, const std::vector<std::string>& files) {
  if (const std::string both = held_out_beside_training(files); !both.empty())
    throw Error(TSR_E_INVALID_ARGUMENT, concat("the folder ", folder, " holds ", both,
                                               "; give the files to train on: --data '", folder, "/*train*.bin'"));
}

[[noreturn]] void refuse_mixed(const std::string& folder, const std::vector<std::string>& shards,
                               const std::string& other) {
  const std::string pattern = held_out_beside_training(shards).empty() ? "*.bin" : "*train*.bin";
  throw Error(TSR_E_INVALID_ARGUMENT,
              concat("the folder ", folder, " holds token files such as ", name_of(shards.front()),
                     " and others such as ", name_of(other), "; give only the token files: --data '", folder, "/",
                     pattern, "', or a folder with only text"));
}

}  // namespace

FolderContents contents_of(const std::string& folder) {
  FolderContents contents;
  for (std::vector<fs::path> folders{folder}; !folders.empty();) {
    const fs::path next = std::move(folders.back());
    folders.pop_back();
    list_one(next, contents, folders);
  }
  std::ranges::sort(contents.files);
  std::ranges::sort(contents.left_out);
  return contents;
}

bool is_pattern(const std::string& path) {
  return path.find_first_of("*?[") != path.npos;
}

std::vector<std::string> paths_matching(const std::string& pattern) {
  static thread_local std::string unlisted;  // a folder; the callback has no other place for it
  const auto note_unlisted = [](const char* folder, int) {
    unlisted = folder;
    return 1;
  };
  glob_t found{};
  errno = 0;
  const int status = ::glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, note_unlisted, &found);
  const int reason = errno;
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  const bool is_nothing = status == GLOB_NOMATCH || (status == GLOB_ABORTED && reason == ENOENT);
  if (status != 0 && !is_nothing)
    throw Error(TSR_E_UNAVAILABLE,
                concat("cannot list the folder ", unlisted, " for ", pattern, ": ", std::strerror(reason)));
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> files_matching(const std::string& pattern) {
  if (pattern.find("**") != pattern.npos)
    throw Error(TSR_E_UNSUPPORTED, concat("the pattern ", pattern,
                                          " has **, which matches no sub-folders here; give a "
                                          "folder, whose sub-folders are read too, or a pattern for each"));
  std::vector<std::string> files = paths_matching(pattern);
  if (files.empty())
    throw Error(TSR_E_NOT_FOUND, concat("no file matches ", pattern, "; check the folder and the pattern"));
  std::error_code unknown;
  for (const std::string& path : files)
    if (fs::is_directory(path, unknown))
      throw Error(TSR_E_INVALID_ARGUMENT, concat("the pattern ", pattern, " matches the folder ", path,
                                                 "; give a pattern that only files match, or a folder"));
  return files;
}

bool would_match(const std::string& pattern, const std::string& path) {
  const fs::path of_pattern(pattern), file = fs::absolute(path);
  if (::fnmatch(of_pattern.filename().c_str(), file.filename().c_str(), FNM_PERIOD) != 0) return false;
  const std::string folders = of_pattern.parent_path().string();
  std::error_code not_there;
  for (const std::string& folder : folders.empty() ? std::vector<std::string>{"."} : paths_matching(folders))
    if (fs::equivalent(folder, file.parent_path(), not_there)) return true;
  return false;
}

void require_data(const std::string& flag, const std::string& path) {
  if (name_is_there(path)) return;
  if (!is_pattern(path))
    throw UsageError(concat(flag, " ", path, ": no such file or folder; give text, token files, a folder or a ",
                            "pattern of them (see docs/data.md)"));
  try {
    files_matching(path);
  } catch (const Error& e) {
    throw UsageError(concat(flag, ": ", e.what()));
  }
}

std::string doubt_of_pattern(const std::string& pattern, const std::vector<std::string>& files) {
  const std::string both = held_out_beside_training(files);
  if (both.empty()) return "";
  return concat(pattern, " matches ", both, "; if the job trains on it, give a pattern of the training files alone, ",
                "such as '", (fs::path(pattern).parent_path() / "*train*.bin").generic_string(), "'");
}

bool are_shards(const std::string& folder, const FolderContents& contents) {
  const std::vector<std::string>& files = contents.files;
  std::vector<std::string> shards;
  std::ranges::copy_if(files, std::back_inserter(shards), is_token_file);
  if (shards.empty()) return false;
  if (shards.size() < files.size()) refuse_mixed(folder, shards, *std::ranges::find_if_not(files, is_token_file));
  if (!contents.left_out.empty())
    throw Error(TSR_E_INVALID_ARGUMENT, concat("the folder ", folder, " holds token files such as ",
                                               name_of(shards.front()), ", and ", contents.left_out.front(),
                                               ", which is a link to a folder or to nothing, or no file; remove it, "
                                               "or put the files there themselves"));
  refuse_held_out_shards(folder, files);
  return true;
}

}  // namespace tessera::host
