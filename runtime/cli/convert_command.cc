// `tessera convert`: a model as a new Hugging Face folder, which transformers and `tessera --model` load. Files of
// the tokenizer and of generation that lie beside the weights go with them. What can fail without writing is tried
// first: flags, the model, its weights, that these files can be read. Then the folder is made, which must be new or
// empty, so that nothing of another model is left in it. While it is written it has a lock, which stays when a signal
// ends the program: by that the next conversion knows what it may remove.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/concat.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/read_only_file.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/model_folder.h"
#include "cli/outputs.h"
#include "config/text_values.h"
#include "config/usage_error.h"
#include "storage/folder_lock.h"
#include "tessera/error.hpp"
#include "weights/hf_writer.h"

namespace tessera::host {
namespace {

namespace fs = std::filesystem;

constexpr CommandFlag kFlags[] = {
    {"max-shard-size", "BYTES", "largest file of weights: 5GB, 500MiB (default 5GB)"},
    {"dtype", "float32|bf16|fp16", "type of the weights (default float32)"},
};
constexpr CommandSyntax kSyntax = {"usage: tessera convert FOLDER OUT [flags]",
                                   "Writes the model in FOLDER to the new folder OUT in Hugging Face's layout.", kFlags,
                                   2, "tessera convert runs/mine for-transformers --dtype bf16"};
constexpr std::string_view kDtypes = "float32|bf16|fp16";
constexpr const char* kCopiedFiles[] = {
    "tokenizer.json",        "vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json",
    "generation_config.json"};

constexpr std::string_view kLock = "convert.lock";

/// Whether a conversion writes such a file, also under the name that it has until it is whole. By names alone.
bool is_of_conversion(const std::string& name) {
  const auto begins = [&](const char* own) { return name.starts_with(own); };
  return name == kLock || begins("config.json") || (begins("model") && name.find(".safetensors") != name.npos) ||
         std::ranges::any_of(kCopiedFiles, begins);
}

/// Of a folder; empty for anything else.
std::vector<std::string> names_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  return names;
}

/// Whether a conversion that was interrupted has left it, so that nothing else is in it.
bool is_left_over(const std::vector<std::string>& names) {
  return std::ranges::count(names, kLock) > 0 && std::ranges::all_of(names, is_of_conversion);
}

/// The folder that is made, which may be there if it is empty, or what an interrupted conversion has left. Unless it is
/// kept, it goes again, if it was not there and nothing is in it.
class NewFolder {
 public:
  explicit NewFolder(const std::string& folder) : folder_(folder) {
    std::error_code error;
    const bool is_there = name_is_there(folder);
    if (is_there &&
        (!fs::is_directory(folder, error) || (!fs::is_empty(folder, error) && !is_left_over(names_in(folder)))))
      throw UsageError(concat("OUT ", folder, " exists", fs::is_directory(folder, error) ? " and is not empty" : "",
                              "; give the name of a new folder"));
    fs::create_directories(folder, error);
    if (error) throw UsageError(concat("OUT ", folder, " cannot be made: ", error.message()));
    is_kept_ = is_there;
    lock_.emplace("OUT", folder, kLock, std::chrono::milliseconds(0));
    for (const std::string& name : names_in(folder))
      if (name != kLock) fs::remove(fs::path(folder) / name, error);
  }
  ~NewFolder() {
    lock_.reset();
    std::error_code error;
    fs::remove(fs::path(folder_) / kLock, error);  // where the file system has no locks, it is still there
    if (!is_kept_) fs::remove(folder_, error);     // if it is empty
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  void keep() { is_kept_ = true; }

 private:
  const std::string folder_;
  bool is_kept_ = true;
  std::optional<FolderLock> lock_;
};

/// Those of the folder that do not depend on the weights, each of which can be read. Throws what ReadOnlyFile throws.
std::vector<std::string> files_to_copy(const std::string& folder) {
  std::vector<std::string> names;
  for (const char* name : kCopiedFiles) {
    const std::string path = fs::path(folder) / name;
    if (!name_is_there(path)) continue;
    const ReadOnlyFile can_be_read(path);
    names.emplace_back(name);
  }
  return names;
}

void copy_one(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::copy_file(from, to, error);
  if (error)
    throw Error(TSR_E_UNAVAILABLE, concat("cannot copy ", from.string(), " to ", to.string(), ": ", error.message()));
}

int run(const CommandLine& line) {
  const std::string &folder = line.words()[0], &out = line.words()[1];
  HuggingFaceOutput output{.folder = out};
  output.max_shard_bytes = parse_bytes("max-shard-size", line.value("max-shard-size", "5GB"));
  constexpr tsr_dtype kTypes[] = {TSR_F32, TSR_BF16, TSR_F16};
  output.dtype = kTypes[parse_choice("dtype", line.value("dtype", "float32"), kDtypes)];
  const ModelFolder model = open_model_folder(folder);
  const std::vector<std::string> copied = files_to_copy(folder);
  refuse_inside_checkpoint("OUT", out);
  NewFolder made(out);
  const Log log;
  {
    Progress progress(log, concat("writing ", out));
    write_hugging_face_folder(model.architecture(), *model.weights, output, &progress);
  }
  for (const std::string& name : copied)
    copy_one(fs::path(folder) / name, fs::path(out) / name);
  made.keep();
  log.info("wrote ", model.architecture().summary(), ", from ", folder, " to ", out);
  return 0;
}

}  // namespace

const CommandSyntax& convert_syntax() {
  return kSyntax;
}

int convert_command(std::span<const std::string> arguments) {
  const CommandLine line(kSyntax, arguments);
  if (!line.wants_help()) return run(line);
  std::cout << help_of(kSyntax);
  return 0;
}

}  // namespace tessera::host
