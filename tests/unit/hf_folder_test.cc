#include "weights/hf_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "model/gpt2/gpt2.h"
#include "model/gpt2/gpt2_family.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temp_folder.h"
#include "weights/safetensors_writer.h"

namespace tessera::host {
namespace {

using testing::expect_error;
using testing::TempFolder;

struct Tensor {
  SafetensorsEntry entry;
  std::vector<float> values;  // written as F32; empty for other dtypes, which stay zero
};

const Gpt2Config kConfig{.num_layers = 2, .num_heads = 2, .embed = 4, .vocab = 6, .positions = 3, .ffn = 16};

std::vector<Parameter> parameters() {
  return make_gpt2(kConfig, {}).parameters;
}

// Value i of parameter number p is 100 p + i.
std::vector<Tensor> tensors_of(const std::vector<Parameter>& model, const std::string& prefix = "") {
  std::vector<Tensor> tensors;
  for (const Parameter& parameter : model) {
    Tensor tensor{{prefix + parameter.name, "F32", {}}, {}};
    for (const int64_t extent : parameter.shape())
      tensor.entry.shape.push_back(static_cast<uint64_t>(extent));
    for (uint64_t i = 0; i < parameter.num_elements; ++i) {
      tensor.values.push_back(static_cast<float>(100 * tensors.size() + i));
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::vector<Tensor> model_tensors(const std::string& prefix = "") {
  return tensors_of(parameters(), prefix);
}

void save(const std::string& path, const std::vector<Tensor>& tensors) {
  std::vector<SafetensorsEntry> entries;
  for (const Tensor& tensor : tensors)
    entries.push_back(tensor.entry);
  SafetensorsWriter writer(path, entries, {{"format", "pt"}});
  for (const Tensor& tensor : tensors)
    writer.write(tensor.entry.name, 0, std::as_bytes(std::span(tensor.values)));
  writer.commit();
}

Tensor& find(std::vector<Tensor>& tensors, const std::string& name) {
  return *std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.entry.name == name; });
}

std::vector<float> read(const ParameterSource& source, const std::string& name, uint64_t offset,
                        std::size_t num_elements) {
  std::vector<float> out(num_elements);
  source.read(name, offset, out);
  return out;
}

// What loading says of the model's tensors after `change`.
void expect_refused(const std::function<void(std::vector<Tensor>&)>& change, std::vector<std::string> parts) {
  const TempFolder folder;
  std::vector<Tensor> tensors = model_tensors();
  change(tensors);
  save(folder.path("model.safetensors"), tensors);
  parts.push_back(folder.path());
  expect_error([&] { HuggingFaceWeights(folder.path(), parameters(), gpt2_tensor_names()); }, parts);
}

void expect_model_values(const HuggingFaceWeights& weights) {
  float first = 0;
  for (const Tensor& tensor : model_tensors()) {
    EXPECT_EQ(read(weights, tensor.entry.name, 0, tensor.values.size()), tensor.values) << tensor.entry.name;
    EXPECT_EQ(read(weights, tensor.entry.name, 2, 1), std::vector<float>{first + 2}) << tensor.entry.name;
    first += 100;
  }
}

TEST(HuggingFaceWeights, ReadsWithAndWithoutThePrefix) {
  for (const char* prefix : {"", "transformer."}) {
    const TempFolder folder;
    save(folder.path("model.safetensors"), model_tensors(prefix));
    expect_model_values(HuggingFaceWeights(folder.path(), parameters(), gpt2_tensor_names()));
  }
}

TEST(HuggingFaceWeights, SkipsMaskBuffersOfAnyType) {
  const TempFolder folder;
  std::vector<Tensor> tensors = model_tensors();
  tensors.push_back({{"h.0.attn.bias", "BOOL", {1, 1, 3, 3}}, {}});
  tensors.push_back({{"h.1.attn.bias", "F32", {1, 1, 3, 3}}, {}});
  tensors.push_back({{"h.1.attn.masked_bias", "F32", {}}, {}});
  save(folder.path("model.safetensors"), tensors);
  const HuggingFaceWeights weights(folder.path(), parameters(), gpt2_tensor_names());
  expect_model_values(weights);
  expect_error([&] { read(weights, "h.0.attn.bias", 0, 1); }, {"no tensor h.0.attn.bias"});
}

TEST(HuggingFaceWeights, HeadMustEqualTheEmbedding) {
  const TempFolder folder;
  std::vector<Tensor> tensors = model_tensors("transformer.");
  tensors.push_back(find(tensors, "transformer.wte.weight"));
  tensors.back().entry.name = "lm_head.weight";
  save(folder.path("model.safetensors"), tensors);
  expect_model_values(HuggingFaceWeights(folder.path(), parameters(), gpt2_tensor_names()));

  tensors.back().values.back() += 1;
  save(folder.path("model.safetensors"), tensors);
  expect_error([&] { HuggingFaceWeights(folder.path(), parameters(), gpt2_tensor_names()); },
               {"lm_head.weight", "differs", "wte.weight", "[6, 4]"});

  tensors.back().values.back() -= 1;
  tensors.back().entry.shape = {4, 6};
  save(folder.path("model.safetensors"), tensors);
  expect_error([&] { HuggingFaceWeights(folder.path(), parameters(), gpt2_tensor_names()); },
               {"lm_head.weight", "[4, 6]", "[6, 4]"});
}

// The head is held against the embedding 65,536 elements at a time.
TEST(HuggingFaceWeights, AHeadOfManyElementsMustEqualTheEmbeddingInAll) {
  const Gpt2Config config{.num_layers = 1, .num_heads = 1, .embed = 2, .vocab = 70'001, .positions = 1, .ffn = 2};
  const std::vector<Parameter> model = make_gpt2(config, {}).parameters;
  const TempFolder folder;
  std::vector<Tensor> tensors = tensors_of(model);
  tensors.push_back(find(tensors, "wte.weight"));
  tensors.back().entry.name = "lm_head.weight";
  const auto load = [&] {
    save(folder.path("model.safetensors"), tensors);
    HuggingFaceWeights(folder.path(), model, gpt2_tensor_names());
  };
  load();
  for (const size_t i : {0, 65'535, 65'536, 131'071, 131'072, 140'001}) {
    tensors.back().values[i] += 1;
    expect_error(load, {"lm_head.weight", "differs", "wte.weight", "[70001, 2]"});
    tensors.back().values[i] -= 1;
  }
}

TEST(HuggingFaceWeights, RefusesAMissingTensor) {
  for (const char* name : {"wte.weight", "h.1.mlp.c_fc.weight", "ln_f.bias"}) {
    expect_refused([&](std::vector<Tensor>& t) { std::erase_if(t, [&](auto& x) { return x.entry.name == name; }); },
                   {"no tensor " + std::string(name)});
  }
}

TEST(HuggingFaceWeights, NamesThePrefixOfAWrappedModel) {
  for (const std::string prefix : {"module.", "_orig_mod.", "model.", "module.transformer.", "transformer.module."}) {
    const TempFolder folder;
    save(folder.path("model.safetensors"), model_tensors(prefix));
    expect_error([&] { HuggingFaceWeights(folder.path(), parameters(), gpt2_tensor_names()); },
                 {"no tensor wte.weight", "but " + prefix + "wte.weight: its names begin with " + prefix + ",",
                  "remove the prefix from all names"});
  }
}

TEST(HuggingFaceWeights, RefusesAnExtraTensor) {
  for (const char* name : {"h.2.ln_1.weight", "score.weight", "h.x.attn.bias", "h..attn.bias", "h.0.attn.bias2"}) {
    expect_refused(
        [&](std::vector<Tensor>& t) {
          t.push_back({{name, "F32", {3}}, {}});
        },
        {name, "[3]", "no parameter"});
  }
  expect_refused(
      [](std::vector<Tensor>& t) {
        t.push_back({{"transformer.wpe.weight", "F32", {3, 4}}, {}});
      },
      {"wpe.weight", "with and without"});
}

TEST(HuggingFaceWeights, RefusesAWrongShapeWithBothShapes) {
  const auto reshape = [](const char* name, std::vector<uint64_t> shape) {
    return [=](std::vector<Tensor>& t) { find(t, name).entry.shape = shape; };
  };
  expect_refused(reshape("h.0.attn.c_attn.weight", {12, 4}), {"h.0.attn.c_attn.weight", "[12, 4]", "[4, 12]"});
  expect_refused(reshape("ln_f.weight", {4, 1}), {"ln_f.weight", "[4, 1]", "[4]"});
  expect_refused(reshape("wte.weight", {7, 4}), {"wte.weight", "[7, 4]", "[6, 4]"});
}

TEST(HuggingFaceWeights, RefusesElementsThatAreNoFloats) {
  expect_refused(
      [](std::vector<Tensor>& t) {
        find(t, "ln_f.bias") = {{"ln_f.bias", "I32", {4}}, {}};
      },
      {"ln_f.bias", "I32", "BF16"});
}

// The model over two files and an index; `change` may edit the index's text.
void save_sharded(
    const TempFolder& folder, const std::string& metadata,
    const std::function<std::string(std::string)>& change = [](std::string s) { return s; }) {
  const std::vector<Tensor> all = model_tensors();
  const std::ptrdiff_t half = static_cast<std::ptrdiff_t>(all.size() / 2);
  save(folder.path("model-00001-of-00002.safetensors"), {all.begin(), all.begin() + half});
  save(folder.path("model-00002-of-00002.safetensors"), {all.begin() + half, all.end()});
  std::string index = "{" + metadata + "\"weight_map\": {";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const char* number = static_cast<std::ptrdiff_t>(i) < half ? "1" : "2";
    index += (i ? ", \"" : "\"") + all[i].entry.name + "\": \"model-0000" + number + "-of-00002.safetensors\"";
  }
  folder.write("model.safetensors.index.json", change(index + "}}"));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(HuggingFaceIndex, ReadsTensorsFromTheirFiles) {
  for (const char* metadata :
       {"", "\"metadata\": {\"total_size\": 4096}, ", "\"metadata\": {\"total_size\": \"4096\"}, "}) {
    const TempFolder folder;
    save_sharded(folder, metadata);
    expect_model_values(HuggingFaceWeights(folder.path(), parameters(), gpt2_tensor_names()));
  }
}

TEST(HuggingFaceIndex, RefusesWhatDoesNotMatchTheFiles) {
  const auto refuse = [](const std::string& from, const std::string& to, const std::vector<std::string>& parts) {
    const TempFolder folder;
    save_sharded(folder, "", [&](const std::string& text) { return replaced(text, from, to); });
    expect_error([&] { HuggingFaceWeights(folder.path(), parameters(), gpt2_tensor_names()); }, parts);
  };
  const std::string first = "\"wte.weight\": \"model-00001-of-00002.safetensors\"";
  refuse(first, "\"wte.weight\": \"model-00002-of-00002.safetensors\"", {"wte.weight", "does not place there"});
  refuse(first + ", ", "", {"wte.weight", "does not place there"});
  refuse(first, first + ", \"x\": \"model-00002-of-00002.safetensors\"", {"tensor x", "does not hold it"});
  refuse(first, first + ", " + first, {"wte.weight", "twice"});
  refuse(first, "\"wte.weight\": \"model-00003.safetensors\"", {"model-00003.safetensors", "No such file"});
  for (const char* name :
       {"\"../secret\"", "\"/etc/passwd\"", "\"a/b\"", "\"..\"", "\".\"", "\"\"", "7", "\"a\\u0000\""}) {
    refuse(first, "\"wte.weight\": " + std::string(name), {"wte.weight", "not a plain file name"});
  }
  refuse("\"weight_map\"", "\"weights\"", {"model.safetensors.index.json", "weight_map"});
}

// A value that is not finite in a wide tensor of the model, as another program may have saved it.
void expect_not_finite(float value, const std::string& shown) {
  const TempFolder folder;
  std::vector<Tensor> tensors = model_tensors();
  find(tensors, "h.1.mlp.c_fc.weight").values[37] = value;
  save(folder.path("model.safetensors"), tensors);
  const HuggingFaceWeights weights(folder.path(), parameters(), gpt2_tensor_names());
  const std::vector<std::string> parts = {folder.path("model.safetensors"), "element 37", "h.1.mlp.c_fc.weight [4, 16]",
                                          "is " + shown};
  expect_error([&] { read(weights, "h.1.mlp.c_fc.weight", 0, 64); }, parts);
  expect_error([&] { read(weights, "h.1.mlp.c_fc.weight", 37, 1); }, parts);
  EXPECT_NO_THROW(read(weights, "h.1.mlp.c_fc.weight", 0, 37)) << "a rank reads and checks what it owns";
  EXPECT_NO_THROW(read(weights, "h.1.mlp.c_fc.weight", 38, 26));
}

TEST(HuggingFaceWeights, RefusesValuesThatAreNotFinite) {
  expect_not_finite(std::nanf(""), "nan");
  expect_not_finite(INFINITY, "inf");
  expect_not_finite(-INFINITY, "-inf");
}

TEST(HuggingFaceWeights, WithoutFilesIsAnError) {
  const TempFolder folder;
  expect_error([&] { HuggingFaceWeights(folder.path(), parameters(), gpt2_tensor_names()); },
               {folder.path(), "no model.safetensors"});
}

TEST(GoldenFolder, HoldsTheWholeModel) {
  const std::string folder = testing::source_dir("tests/golden/gpt2-nano");
  const Gpt2Config config = read_gpt2_config(ConfigFile(folder + "/config.json")).config;
  const Model model = make_gpt2(config, {});
  const HuggingFaceWeights weights(folder, model.parameters, gpt2_tensor_names());
  double square = 0;
  for (const Parameter& parameter : model.parameters) {
    for (const float value : read(weights, parameter.name, 0, parameter.num_elements))
      square += double{value} * value;
  }
  EXPECT_EQ(model.num_parameter_elements(), 120'864u);
  EXPECT_TRUE(std::isfinite(square));
  EXPECT_GT(square, 0);
}

}  // namespace
}  // namespace tessera::host
