// All numbers come from the index. Parameters are counted by it, too: a tensor is a moment if a parameter of its name
// without "optim." and ".m" or ".v" is there.
//
//     model       gpt2
//                 layers of the model 12, heads of the model 12, ...
//     step        20, with 20 updates; 81920 tokens seen
//     layout      dp=2 fsdp
//     checksums   compared: 1.4 GiB in 2 files, all match
//
// Text from the file is escaped before it reaches a terminal (printable).

#include "checkpoint/inspect.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/concat.h"
#include "checkpoint/index_text.h"

namespace tessera::host {
namespace {

using Json = nlohmann::ordered_json;

std::string joined_values(const NamedValues& values, const char* between) {
  std::string text;
  for (const auto& [name, value] : values)
    if (!value.empty()) text += concat(text.empty() ? "" : ", ", name, between, value);
  return text;
}

std::string line(std::string name, const std::string& value) {
  name.resize(12, ' ');
  return concat(name, printable(value), "\n");
}

std::string tensors_text(const CheckpointIndex& index) {
  uint64_t num_parameters = 0, num_elements = 0, num_moments = 0, num_parts = 0, num_own = 0, num_of_replicas = 0;
  std::set<std::string> dtypes;
  for (const auto& [name, tensor] : index.tensors) {
    num_parts += tensor.parts.size();
    num_own += is_own_state(name);
    num_of_replicas += is_of_replica(name);
    if (is_own_state(name) || is_of_replica(name)) continue;
    const bool is_moment = name.starts_with("optim.") && (name.ends_with(".m") || name.ends_with(".v")) &&
                           index.tensors.contains(name.substr(6, name.size() - 8));
    ++(is_moment ? num_moments : num_parameters);
    if (!is_moment) num_elements += tensor.num_elements();
    dtypes.insert(tensor.dtype);
  }
  std::string types;
  for (const std::string& dtype : dtypes)
    types += (types.empty() ? "" : ", ") + dtype;
  return concat(counted(num_parameters, "parameter"), " of ", counted(num_elements, "element"), ", ",
                counted(num_moments, "moment"), "; ", types,
                num_of_replicas ? concat("; ", num_of_replicas, " of other replicas") : "",
                num_own ? concat("; ", counted(num_own, "buffer"), " of strategies") : "", "; in ",
                counted(num_parts, "part"));
}

std::string checks_text(const CheckpointIndex& index, const Damage& damage) {
  const std::string what = concat(human_bytes(index.total_bytes()), " in ", counted(index.files.size(), "file"));
  if (!damage) return line("checksums", concat("not compared (--quick): ", what));
  if (damage->empty()) return line("checksums", concat("compared: ", what, ", all match"));
  std::string text = line("checksums", concat(what, ", of which ", counted(damage->size(), "place"),
                                              damage->size() == 1 ? " is" : " are", " not what was written:"));
  for (const std::string& sentence : *damage)
    text += line("", sentence);
  return text;
}

}  // namespace

std::string layout_text(const RunDescription& run) {
  std::string text;
  for (const auto& [axis, num_ranks] : run.mesh) {
    const auto found = std::ranges::find(run.strategies, axis, [](const auto& pair) { return pair.first; });
    text += concat(text.empty() ? "" : ", ", axis, "=", num_ranks, found == run.strategies.end() ? "" : " ",
                   found == run.strategies.end() ? "" : found->second);
  }
  return std::ranges::all_of(run.mesh, [](const auto& axis) { return axis.second == 1; }) ? "one rank" : text;
}

std::string inspect_text(const Checkpoint& checkpoint, const Damage& damage) {
  const CheckpointIndex& index = checkpoint.index();
  const RunState& state = index.state;
  const RunDescription& run = index.run;
  std::string text = line("checkpoint", checkpoint.folder());
  text += line("written by", concat("tessera ", run.tessera, ", version ", kCheckpointVersion, " of the format"));
  text += line("model", concat(run.model, run.has_config ? ", whose config.json is in the checkpoint" : ""));
  text += line("", joined_values(run.model_facts, " "));
  text += line("step", concat(state.step, ", with ", counted(static_cast<uint64_t>(state.optimizer_step), "update"),
                              "; ", state.tokens, " ", run.items, " seen"));
  text +=
      line("data", concat("the next step begins at ", state.data_position, "; ", run.data.second, " ", run.data.first));
  if (state.loss_scale != 1) text += line("loss scale", concat(state.loss_scale));
  text += line("settings", joined_values(run.settings, " "));
  text += line("layout", layout_text(run));
  text += line("plugins", joined_values(run.plugins, " "));
  text += line("tensors", tensors_text(index));
  for (const SavedFile& file : index.files)
    text += line(&file == index.files.data() ? "files" : "", concat(file.name, "  ", human_bytes(file.num_bytes)));
  return text + checks_text(index, damage);
}

std::string inspect_json(const Checkpoint& checkpoint, const Damage& damage) {
  // Through the text that was written, so the keys are those of docs/checkpoint-format.md and stay so.
  const Json index = Json::parse(print_index(checkpoint.index()));
  Json result = {{"folder", checkpoint.folder()}};
  for (const auto& [key, value] : index.items())
    if (key != "crc32c") result[key] = value;
  for (auto& tensor : result["tensors"])
    for (auto& part : tensor["parts"])
      part.erase("crc32c");
  result["checked"] = damage.has_value();
  if (damage) result["damage"] = *damage;
  return result.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tessera::host
