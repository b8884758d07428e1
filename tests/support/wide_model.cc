// The formulas are those of tests/golden/gpt2-wide/make.py.
#include "support/wide_model.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "model/gpt2/gpt2.h"
#include "support/paths.h"
#include "weights/safetensors_writer.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr size_t kNumTokens = 2 * 2 * 64 + 1;  // of two steps of two sequences, and the last target

/// Number i of 32 pseudo-random bits.
uint32_t mixed(uint32_t i, uint32_t seed) {
  uint32_t x = i + seed * 0x9e3779b9;
  x = (x ^ x >> 16) * 0x85ebca6b;
  x = (x ^ x >> 13) * 0xc2b2ae35;
  return x ^ x >> 16;
}

bool is_weight_of_norm(const std::string& name) {
  return name.ends_with(".weight") && ("." + name).find(".ln_") != std::string::npos;
}

/// Matrices and biases in [-1/32, 1/32), weights of norms in [3/4, 5/4): exact in float32.
std::vector<float> values_of(const Parameter& parameter, uint32_t seed) {
  const bool is_norm = is_weight_of_norm(parameter.name);
  const float middle = is_norm ? 1 : 0, scale = is_norm ? 0x1p-17f : 0x1p-20f;
  std::vector<float> values(parameter.num_elements);
  for (uint32_t i = 0; i < values.size(); ++i)
    values[i] = middle + scale * static_cast<float>(static_cast<int32_t>(mixed(i, seed) >> 16) - 32768);
  return values;
}

void write_weights(const std::string& path, const std::vector<Parameter>& parameters) {
  std::vector<SafetensorsEntry> entries;
  for (const Parameter& parameter : parameters) {
    const auto shape = parameter.shape();
    entries.push_back({parameter.name, "F32", {shape.begin(), shape.end()}});
  }
  SafetensorsWriter writer(path, entries, {{"format", "pt"}});
  for (uint32_t p = 0; p < parameters.size(); ++p) {
    const std::vector<float> values = values_of(parameters[p], p + 1);
    writer.write(parameters[p].name, 0, std::as_bytes(std::span(values)));
  }
  writer.commit();
}

/// Of the whole vocabulary; each third is the same; the last there is comes too.
std::vector<uint16_t> make_tokens(size_t count, uint32_t vocabulary) {
  std::vector<uint16_t> tokens(count);
  for (uint32_t i = 0; i < count; ++i)
    tokens[i] = static_cast<uint16_t>(i % 3 == 0 ? 198 : mixed(i, 1000) % vocabulary);
  tokens[5] = static_cast<uint16_t>(vocabulary - 1);
  return tokens;
}

}  // namespace

WideModel::WideModel() {
  for (const char* name : {"config.json", "trajectory.json"})
    std::filesystem::copy(source_dir("tests/golden/gpt2-wide/") + name, folder_.path(name));
  const Gpt2Config config = read_gpt2_config(ConfigFile(folder_.path("config.json"))).config;
  write_weights(folder_.path("model.safetensors"), make_gpt2(config, {}).parameters);
  folder_.write("tokens.bin", raw_bytes(make_tokens(kNumTokens, static_cast<uint32_t>(config.vocab))));
}

}  // namespace tessera::testing
