// Tells what --model was meant to be. The name of a size, a folder, an id of the Hugging Face hub and an address look
// alike, and each mistake has another remedy: so the kind of mistake is recognized first and then answered with what to
// type. A folder that is named like a size (gpt2) wins, since that is where `hf download` puts the weights.

#include "model/model_name.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "base/concat.h"
#include "base/read_only_file.h"
#include "config/help/did_you_mean.h"
#include "config/usage_error.h"
#include "model/architectures.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr std::size_t kShownLetters = 80;

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw Error(TSR_E_INVALID_ARGUMENT, concat(parts...));
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

std::string shown(const std::string& given) {
  return given.size() <= kShownLetters ? given : given.substr(0, kShownLetters) + "...";
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool looks_like_a_path(const std::string& given) {
  return given.starts_with('.') || given.starts_with('/') || given.ends_with('/') || std::ranges::count(given, '/') > 1;
}

// "GPT2-medium", "gpt2/": a size but for the case, a slash at the end, or a few letters; empty: it is not.
std::string size_meant(const std::string& given) {
  const auto slash = given.find('/');
  if (slash != std::string::npos && slash + 1 != given.size()) return "";
  const std::string name = lower(given.substr(0, slash));
  return name == given ? "" : nearest(name, model_names());
}

// "openai-community/gpt2": two parts, and the first one is not a folder here.
bool looks_like_a_hub_id(const std::string& given) {
  const auto slash = given.find('/');
  if (slash == std::string::npos || looks_like_a_path(given)) return false;
  struct stat info {};
  return ::stat(given.substr(0, slash).c_str(), &info) != 0;
}

std::string download_of_some_model() {
  for (const ArchitectureFamily* family : architecture_families())
    for (const std::string& name : family->names())
      if (const std::string id = family->hub_id(name); !id.empty()) return how_to_download(id, name);
  return "";
}

// Nothing here has that name; returns when it may be the name of a size.
void refuse_absent(const std::string& given) {
  const std::string name = shown(given);
  if (const std::string size = size_meant(given); !size.empty())
    refuse("--model ", name, ": unknown model; did you mean ", size, "?");
  if (name.find("://") != name.npos)
    refuse("--model ", name, " is an address; download the model and give its folder: ", download_of_some_model());
  if (std::ranges::any_of(given, is_control))
    refuse("--model ", name, " has control characters, and no folder has that name; ",
           "give the name or folder without them");
  if (given.starts_with('~'))
    refuse("--model ", name, ": no such folder; the shell puts your home in the place of ~ only after a ",
           "space: --model ", name);
  if (looks_like_a_hub_id(given))
    refuse("--model ", name, ": no such folder; is it a model of the Hugging Face hub? Download it: ",
           how_to_download(name, name.substr(name.find('/') + 1)));
  if (given.find('/') != given.npos || given.starts_with('.'))
    refuse("--model ", name, ": no such folder; give one that holds config.json and model.safetensors");
}

void refuse_unreachable(const std::string& given, int reason) {
  if (reason == ENAMETOOLONG)
    refuse("--model ", shown(given), " has ", given.size(), " letters, too many for a path; give a folder");
  if (reason != ENOENT && reason != ENOTDIR)
    refuse("--model ", shown(given), " cannot be accessed: ", std::strerror(reason),
           "; give a folder that this user may enter");
  if (reason == ENOENT && name_is_there(given))
    refuse("--model ", shown(given), " is a link that leads nowhere; restore what it points to, or give a folder");
}

NamedArchitecture by_name(const std::string& given) {
  for (const ArchitectureFamily* family : architecture_families())
    if (auto architecture = family->by_name(given)) return {std::move(architecture), family->hub_id(given)};
  const std::vector<std::string> names = model_names();
  const std::string close = nearest(given, names);
  std::string list;
  for (const std::string& name : names)
    list += name + ", ";
  for (const ArchitectureFamily* family : architecture_families())
    if (!family->pattern().empty()) list += family->pattern() + ", ";
  refuse("--model ", given, ": there is neither a model nor a folder of that name",
         close.empty() ? "; give " : "; did you mean " + close + "? Give ", list, "or a folder with a config.json");
}

const ArchitectureFamily& family_of(const ConfigFile& file) {
  if (file.has("model") && file.has("data"))
    file.refuse(TSR_E_INVALID_ARGUMENT, "model", "is the setting of a run, whose record this is; give the folder of a ",
                "model, or the run's checkpoints, which are where it was told to --save");
  if (!file.has("model_type"))
    file.refuse(TSR_E_INVALID_ARGUMENT, "model_type", "is missing; ", model_types(), " is supported");
  const std::string type = file.text("model_type", "");
  for (const ArchitectureFamily* family : architecture_families())
    if (!type.empty() && family->model_type() == type) return *family;
  file.refuse(TSR_E_UNSUPPORTED, "model_type", "is \"", type, "\"; only ", model_types(), " is supported");
}

}  // namespace

bool is_model_folder(const std::string& given) {
  const auto names = model_names();
  const bool is_name = std::ranges::find(names, given) != names.end();
  struct stat info {};
  if (::stat(given.c_str(), &info) != 0) {
    if (is_name) return false;
    refuse_unreachable(given, errno);
    refuse_absent(given);
    return false;
  }
  if (!S_ISDIR(info.st_mode)) {
    // A plain file of that name does not matter.
    if (is_name) return false;
    refuse("--model ", shown(given), " is not a folder; give the folder that holds config.json and model.safetensors");
  }
  if (name_is_there(given + "/latest") && !name_is_there(given + "/config.json"))
    refuse("--model ", shown(given),
           ": the folder holds checkpoints; give the model that was trained, with --init-from ", shown(given),
           " to start from their parameters or --resume ", shown(given), " to continue that run");
  if (!name_is_there(given + "/config.json"))
    refuse("--model ", shown(given), ": the folder holds no config.json; give the folder of a Hugging Face model");
  return true;
}

NamedArchitecture find_architecture(const std::string& given) {
  try {
    if (!is_model_folder(given)) return by_name(given);
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  const ConfigFile file(given + "/config.json");
  NamedArchitecture found;
  found.architecture = family_of(file).from_config(file, found.warnings);
  found.config = file.contents();
  return found;
}

std::string how_to_download(const std::string& hub_id, const std::string& folder) {
  return concat("hf download ", hub_id, " config.json model.safetensors --local-dir ", folder, ", then --model ./",
                folder, " (hf comes with pip install huggingface_hub)");
}

}  // namespace tessera::host
