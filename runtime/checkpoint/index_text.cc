// index.json as text: one line with the checksum of the rest, then the rest of one JSON object.
//
//     {"crc32c": "e3069283",
//      "format": "tessera-checkpoint", "version": 1, ...}
//
// So any reader of JSON takes the file as it is, and ours knows before it parses that every byte is what was written.
// What is read is checked all the same: anybody can compute a checksum.

#include "checkpoint/index_text.h"

#include <string_view>

#include <nlohmann/json.hpp>

#include "base/concat.h"
#include "checkpoint/index_fields.h"
#include "storage/block_sums.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "tessera-checkpoint";
constexpr std::string_view kFirstEnd = "\",\n";

Json values_json(const NamedValues& values) {
  Json object = Json::object();
  for (const auto& [name, value] : values)
    object[name] = value;
  return object;
}

Json state_json(const RunState& state) {
  Json json = {{"step", state.step},
               {"optimizer_step", state.optimizer_step},
               {"tokens", state.tokens},
               {"data_position", state.data_position},
               {"loss_scale", state.loss_scale},
               {"updates_at_scale", state.updates_at_scale}};
  if (!state.best_step) return json;
  json["best"] = {{"step", state.best_step}, {"loss", state.best_loss}};
  if (!state.best_of.empty()) json["best"]["of"] = state.best_of;
  return json;
}

Json run_json(const RunDescription& run) {
  Json mesh = Json::array();
  for (const auto& [axis, num_ranks] : run.mesh)
    mesh.push_back({{"axis", axis}, {"ranks", num_ranks}});
  Json data = {{"what", run.data.first}, {"size", run.data.second}};
  if (!run.data_fingerprint.empty()) data["fingerprint"] = run.data_fingerprint;
  return {{"tessera", run.tessera},
          {"model", run.model},
          {"has_config", run.has_config},
          {"model_facts", values_json(run.model_facts)},
          {"items", run.items},
          {"settings", values_json(run.settings)},
          {"data", data},
          {"mesh", mesh},
          {"strategies", values_json(run.strategies)},
          {"plugins", values_json(run.plugins)}};
}

// A part of a rank (rank 0 merges them into the index) has the same objects as the index, by the same functions.
Json file_json(const SavedFile& file) {
  return {{"name", file.name},
          {"bytes", file.num_bytes},
          {"header_bytes", file.header_bytes},
          {"header_crc32c", file.header_crc32c}};
}

Json range_json(const StridedRange& range) {
  if (range.count == 1) return {range.offset, range.num_elements};
  return {range.offset, range.num_elements, range.count, range.stride};
}

Json tensors_json(const std::map<std::string, SavedTensor, std::less<>>& tensors) {
  Json object = Json::object();
  for (const auto& [name, tensor] : tensors) {
    Json parts = Json::array();
    for (const TensorPart& part : tensor.parts) {
      Json ranges = Json::array();
      for (const StridedRange& range : part.ranges)
        ranges.push_back(range_json(range));
      parts.push_back({{"file", part.file}, {"ranges", ranges}, {"crc32c", part.crc32c}});
    }
    object[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"parts", parts}};
    if (tensor.version) object[name]["version"] = tensor.version;
    if (tensor.is_required) object[name]["required"] = true;
  }
  return object;
}

std::string dump(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);  // a path need not be UTF-8
}

std::string hex(uint32_t number) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", number);
  return text;
}

/// What is after the first line. A text that begins otherwise is not damaged: another file has the name.
std::string_view checked_rest(std::string_view text, const std::string& where) {
  const size_t begin = kIndexBegin.size() + 8 + kFirstEnd.size();
  const bool has_line = text.starts_with(kIndexBegin) && text.size() > begin &&
                        text.substr(kIndexBegin.size() + 8, kFirstEnd.size()) == kFirstEnd;
  if (!has_line)
    throw Error(TSR_E_INVALID_ARGUMENT, concat(where, " does not begin as the index of a checkpoint does"));
  const std::string_view rest = text.substr(begin);
  if (text.substr(kIndexBegin.size(), 8) != hex(crc32c(std::as_bytes(std::span(rest)))))
    throw Error(
        TSR_E_DATA_LOSS,
        concat(where, " is not what was written: its crc32c differs; restore the file, or take another checkpoint"));
  return rest;
}

}  // namespace

std::string print_index(const CheckpointIndex& index) {
  Json files = Json::array();
  for (const SavedFile& file : index.files)
    files.push_back(file_json(file));
  const Json object = {{"format", kFormat},
                       {"version", kCheckpointVersion},
                       {"state", state_json(index.state)},
                       {"run", run_json(index.run)},
                       {"checksum_bytes", kChecksumBytes},
                       {"total_bytes", index.total_bytes()},
                       {"files", files},
                       {"tensors", tensors_json(index.tensors)}};
  const std::string rest = dump(object).substr(1) + "\n";
  return concat(kIndexBegin, hex(crc32c(std::as_bytes(std::span(rest)))), kFirstEnd, rest);
}

CheckpointIndex parse_index(std::string_view text, const std::string& where) {
  // In place of the first line, so that errors have the numbers of the file's lines.
  const std::string object = "{\n" + std::string(checked_rest(text, where));
  const JsonFields fields(object, where);
  if (fields.text("format") != kFormat) fields.refuse("format", "is not ", kFormat);
  if (const uint64_t version = fields.number("version"); version > kCheckpointVersion)
    throw Error(TSR_E_UNSUPPORTED,
                concat(where, " has version ", version, " of the format, and this tessera reads up to ",
                       kCheckpointVersion, "; use the tessera that wrote it, or a newer one"));
  if (fields.number("checksum_bytes") != kChecksumBytes) fields.refuse("checksum_bytes", "is not ", kChecksumBytes);
  CheckpointIndex index;
  index.state = read_state(fields.object("state"));
  index.run = read_run(fields.object("run"));
  for (const JsonFields& file : fields.objects("files"))
    index.files.push_back(read_file(file));
  index.tensors = read_tensors(fields.object("tensors"), index.files.size(), true);
  if (fields.number("total_bytes") != index.total_bytes()) fields.refuse("total_bytes", "is not the sum of the files");
  fields.require_only({"format", "version", "checksum_bytes", "state", "run", "files", "tensors", "total_bytes"});
  return index;
}

std::string print_rank_part(const RankPart& part) {
  Json object = {{"tensors", tensors_json(part.tensors)}};
  if (part.file) object["file"] = file_json(*part.file);
  // Without a checksum: rank 0 reads it moments later, and removes it (train/saving/checkpoint_writer.cc).
  return dump(object);
}

RankPart parse_rank_part(std::string_view text, const std::string& where) {
  const JsonFields fields(std::string(text), where);
  RankPart part{std::nullopt, read_tensors(fields.object("tensors"), 1, false)};
  if (!part.tensors.empty()) part.file = read_file(fields.object("file"));
  return part;
}

}  // namespace tessera::host
