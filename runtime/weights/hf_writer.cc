// The parameters are cut into files in the order of the model, each filled up to the limit, as transformers does it.
// Values are read and written in pieces, so a model of any size takes a few megabytes of memory.
//
//     model-00001-of-00002.safetensors   as many parameters as fit, under the names transformer.*
//     model-00002-of-00002.safetensors   the rest
//     model.safetensors.index.json       {"metadata": {"total_size": ...}, "weight_map": {NAME: FILE, ...}}
//     config.json                        last

#include "weights/hf_writer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/concat.h"
#include "base/output_file.h"
#include "tessera/error.hpp"
#include "tessera/half.hpp"
#include "weights/element_conversion.h"
#include "weights/safetensors_writer.h"

namespace tessera::host {
namespace {

constexpr uint64_t kPieceElements = 1 << 20;

/// What safetensors and config.json call a dtype.
struct DtypeNames {
  const char* in_files;
  const char* in_config;
};

DtypeNames names_of(tsr_dtype dtype) {
  if (dtype == TSR_F32) return {"F32", "float32"};
  return dtype == TSR_BF16 ? DtypeNames{"BF16", "bfloat16"} : DtypeNames{"F16", "float16"};
}

float rounded(float value, tsr_dtype dtype) {
  if (dtype == TSR_F32) return value;
  return dtype == TSR_F16 ? f16_to_float(float_to_f16(value)) : bf16_to_float(float_to_bf16(value));
}

/// Some parameters, in one file.
struct Shard {
  std::string name;
  std::vector<const Parameter*> parameters;
};

std::string number_text(size_t number) {
  std::string digits = std::to_string(number);
  return std::string(5 - std::min<size_t>(5, digits.size()), '0') + digits;
}

uint64_t bytes_of(const Parameter& parameter, const HuggingFaceOutput& output) {
  return TSR_NUM_BYTES(output.dtype, parameter.num_elements);
}

std::vector<Shard> cut(const std::vector<Parameter>& parameters, const HuggingFaceOutput& output) {
  std::vector<Shard> shards(1);
  uint64_t num_bytes = 0;
  for (const Parameter& parameter : parameters) {
    const uint64_t own = bytes_of(parameter, output);
    if (!shards.back().parameters.empty() && num_bytes + own > output.max_shard_bytes) {
      shards.emplace_back();
      num_bytes = 0;
    }
    shards.back().parameters.push_back(&parameter);
    num_bytes += own;
  }
  for (size_t i = 0; i < shards.size(); ++i)
    shards[i].name = shards.size() == 1
                         ? "model.safetensors"
                         : concat("model-", number_text(i + 1), "-of-", number_text(shards.size()), ".safetensors");
  return shards;
}

/// Writes one folder.
class FolderWriter {
 public:
  FolderWriter(const Architecture& architecture, const ParameterSource& weights, const HuggingFaceOutput& output)
      : weights_(weights), output_(output), prefix_(architecture.tensor_names().prefix) {}
  /// Removes what it has written, unless that is kept.
  ~FolderWriter() {
    std::error_code ignored;
    for (const std::string& path : written_)
      std::filesystem::remove(path, ignored);
  }
  FolderWriter(const FolderWriter&) = delete;
  FolderWriter& operator=(const FolderWriter&) = delete;

  void keep() { written_.clear(); }

  void write_shard(const Shard& shard, Progress* progress, size_t num_parameters) {
    std::vector<SafetensorsEntry> entries;
    for (const Parameter* parameter : shard.parameters) {
      const std::vector<int64_t> shape = parameter->shape();
      entries.push_back({prefix_ + parameter->name, names_of(output_.dtype).in_files, {shape.begin(), shape.end()}});
    }
    // transformers refuses files without this.
    const std::string path = output_.folder + "/" + shard.name;
    SafetensorsWriter writer(path, entries, {{"format", "pt"}});
    for (const Parameter* parameter : shard.parameters) {
      if (progress) progress->at(num_written_++, num_parameters);
      write_values(writer, *parameter);
    }
    writer.commit();
    written_.push_back(path);
  }

  void write_index(const std::vector<Shard>& shards) {
    uint64_t num_bytes = 0;
    nlohmann::ordered_json map = nlohmann::ordered_json::object();
    for (const Shard& shard : shards)
      for (const Parameter* parameter : shard.parameters) {
        num_bytes += bytes_of(*parameter, output_);
        map[prefix_ + parameter->name] = shard.name;
      }
    const nlohmann::ordered_json index = {{"metadata", {{"total_size", num_bytes}}}, {"weight_map", map}};
    write_text("model.safetensors.index.json", index.dump(2) + "\n");
  }

  void write_text(const std::string& name, const std::string& text) {
    // No file that is there already counts as ours, so none is replaced.
    const std::string path = output_.folder + "/" + name;
    write_output({.flag = "OUT", .path = path, .is_ours = [](std::string_view) { return false; }}, {text});
    written_.push_back(path);
  }

 private:
  void write_values(SafetensorsWriter& writer, const Parameter& parameter) {
    std::vector<float> values;
    std::vector<uint16_t> halves;
    for (uint64_t done = 0; done < parameter.num_elements; done += values.size()) {
      values.resize(std::min(kPieceElements, parameter.num_elements - done));
      weights_.read(parameter.name, done, values);
      require_finite(parameter, done, values);
      if (output_.dtype == TSR_F32) {
        writer.write(prefix_ + parameter.name, done, std::as_bytes(std::span(values)));
        continue;
      }
      halves.resize(values.size());
      std::ranges::transform(values, halves.begin(), [&](float value) {
        return output_.dtype == TSR_F16 ? float_to_f16(value) : float_to_bf16(value);
      });
      writer.write(prefix_ + parameter.name, done, std::as_bytes(std::span(halves)));
    }
  }

  /// As they will be written. `first`: the parameter's element of the first value.
  void require_finite(const Parameter& parameter, uint64_t first, std::span<const float> values) const {
    const auto is_lost = [&](float value) { return !std::isfinite(rounded(value, output_.dtype)); };
    const auto bad = std::ranges::find_if(values, is_lost);
    if (bad == values.end()) return;
    const float value = std::isnan(*bad) ? std::abs(*bad) : *bad;  // the sign of a NaN means nothing
    throw Error(
        TSR_E_INVALID_ARGUMENT,
        concat("element ", first + static_cast<uint64_t>(bad - values.begin()), " of ", parameter.name, " is ", value,
               std::isfinite(value)
                   ? concat(", more than ", names_of(output_.dtype).in_config, " holds; give --dtype float32")
                   : std::string(", and nothing loads such weights; convert an intact model")));
  }

  const ParameterSource& weights_;
  const HuggingFaceOutput& output_;
  const std::string prefix_;
  size_t num_written_ = 0;            // parameters
  std::vector<std::string> written_;  // files
};

}  // namespace

void write_hugging_face_folder(const Architecture& architecture, const ParameterSource& weights,
                               const HuggingFaceOutput& output, Progress* progress) {
  const std::string config = architecture.hugging_face_config(names_of(output.dtype).in_config);
  if (config.empty())
    throw Error(TSR_E_UNSUPPORTED, "Hugging Face has no model of this kind; only GPT-2 can be converted");
  // Parameters do not depend on the shape of a batch.
  const Model model = architecture.build({.batch = 1, .seq = 1});
  const std::vector<Shard> shards = cut(model.parameters, output);
  FolderWriter writer(architecture, weights, output);
  for (const Shard& shard : shards)
    writer.write_shard(shard, progress, model.parameters.size());
  if (shards.size() > 1) writer.write_index(shards);
  writer.write_text("config.json", config);
  writer.keep();
}

}  // namespace tessera::host
