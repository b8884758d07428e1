// What FOLDER of generate and convert may be, in this order:
//
//     a checkpoint's folder, a folder of --save       the newest or named checkpoint; it knows its model
//     config.json with model.safetensors              Hugging Face's layout; also several files with an index
//
// A checkpoint also knows the length of the sequences that it was trained on: positions beyond that were not trained.

#include "cli/model_folder.h"

#include <algorithm>

#include "base/concat.h"
#include "base/read_only_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/save_folder.h"
#include "config/text_values.h"
#include "config/usage_error.h"
#include "train/saving/checkpoint_writer.h"
#include "weights/hf_folder.h"
#include "weights/weight_files.h"

namespace tessera::host {

std::optional<std::string> checkpoint_of(const std::string& given) {
  const CheckpointChoice choice = choose_checkpoint(given);
  if (choice.folders.empty()) return std::nullopt;
  return choice.folders.front();
}

std::string trained_setting(const RunDescription& run, std::string_view flag) {
  const auto setting =
      std::ranges::find(run.settings, flag, [](const auto& pair) { return std::string_view(pair.first); });
  return setting == run.settings.end() ? "" : setting->second;
}

int64_t trained_seq_len(const RunDescription& run) {
  const std::string setting = trained_setting(run, "seq-len");
  return setting.empty() ? 0 : parse_integer("seq-len", setting, 0, 1 << 24);
}

namespace {

ModelFolder open_checkpoint(const std::string& folder) {
  auto checkpoint = std::make_unique<Checkpoint>(folder);
  checkpoint->open_files();
  NamedArchitecture named = architecture_of(*checkpoint);
  const int64_t seq_len = trained_seq_len(checkpoint->index().run);
  const std::string tokens = trained_setting(checkpoint->index().run, kTokensAre);
  return {std::move(named), std::move(checkpoint), seq_len, tokens};
}

ModelFolder open_once(const std::string& folder) {
  if (const auto saved = checkpoint_of(folder))
    return naming_removal(folder, *saved, [&] { return open_checkpoint(*saved); });
  constexpr std::string_view kGive = "; give a checkpoint, or a folder with config.json and model.safetensors";
  if (!name_is_there(folder)) throw UsageError(concat(folder, " does not exist", kGive));
  if (!name_is_there(folder + "/config.json")) throw UsageError(concat(folder, " has no config.json", kGive));
  if (find_weight_files(folder).paths.empty()) throw UsageError(concat(folder, " has no weights", kGive));
  ModelFolder model{find_architecture(folder), nullptr, 0};
  // Names and shapes of parameters do not depend on the batch.
  const Model built = model.architecture().build({.batch = 1, .seq = 1});
  model.weights = std::make_unique<HuggingFaceWeights>(folder, built.parameters, model.architecture().tensor_names());
  return model;
}

}  // namespace

ModelFolder open_model_folder(const std::string& folder) {
  return choosing_again([&] { return open_once(folder); });
}

}  // namespace tessera::host
