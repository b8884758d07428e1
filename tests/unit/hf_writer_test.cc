// Folders that are written, as they are read.
#include "weights/hf_writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/initial_values.h"
#include "model/model_name.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temp_folder.h"
#include "tessera/half.hpp"
#include "weights/hf_folder.h"
#include "weights/safetensors.h"
#include "weights/weight_files.h"

namespace tessera::testing {
using namespace host;
namespace {

using nlohmann::json;

class HuggingFaceWriter : public ::testing::Test {
 protected:
  void write(HuggingFaceOutput output) {
    output.folder = folder_.path();
    write_hugging_face_folder(*architecture_, values_, output);
  }
  /// What the folder has of a parameter, read as any folder of Hugging Face is.
  std::vector<float> read_back(const Parameter& parameter) {
    const HuggingFaceWeights weights(folder_.path(), model_.parameters, architecture_->tensor_names());
    std::vector<float> values(parameter.num_elements);
    weights.read(parameter.name, 0, values);
    return values;
  }
  std::vector<float> expected(const Parameter& parameter) {
    std::vector<float> values(parameter.num_elements);
    values_.read(parameter.name, 0, values);
    return values;
  }

  const TempFolder folder_;
  const std::shared_ptr<const Architecture> architecture_ =
      find_architecture(source_dir("tests/golden/gpt2-talk")).architecture;
  const Model model_ = architecture_->build({.batch = 1, .seq = 1});
  const InitialValues values_{7, model_.parameters};
};

TEST_F(HuggingFaceWriter, OneFileHoldsEveryValue) {
  write({});
  EXPECT_EQ(find_weight_files(folder_.path()).paths, std::vector{folder_.path("model.safetensors")});
  for (const Parameter& parameter : model_.parameters)
    EXPECT_EQ(read_back(parameter), expected(parameter)) << parameter.name;
  const SafetensorsFile file(folder_.path("model.safetensors"));
  EXPECT_EQ(file.header().metadata.at("format"), "pt");
  EXPECT_EQ(file.tensor("transformer.h.0.attn.c_attn.weight").shape, (std::vector<uint64_t>{20, 60}));
  EXPECT_EQ(file.header().tensors.size(), model_.parameters.size());
  EXPECT_FALSE(file.header().tensors.contains("lm_head.weight"));
}

TEST_F(HuggingFaceWriter, LargeWeightsAreCutIntoFilesWithAnIndex) {
  write({.max_shard_bytes = 20'000});
  const WeightFiles files = find_weight_files(folder_.path());
  ASSERT_EQ(files.paths.size(), 4u);
  EXPECT_EQ(files.paths[0], folder_.path("model-00001-of-00004.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("model.safetensors")));
  uint64_t num_bytes = 0;
  for (const std::string& path : files.paths) {
    uint64_t own = 0;
    const SafetensorsFile file(path);
    for (const auto& [name, tensor] : file.header().tensors)
      own += tensor.num_bytes;
    EXPECT_LE(own, 20'000u) << path;
    num_bytes += own;
  }
  EXPECT_EQ(json::parse(file_bytes(folder_.path("model.safetensors.index.json")))["metadata"]["total_size"], num_bytes);
  for (const Parameter& parameter : model_.parameters)
    EXPECT_EQ(read_back(parameter), expected(parameter)) << parameter.name;
}

TEST_F(HuggingFaceWriter, ATensorBeyondTheLimitHasAFileOfItsOwn) {
  write({.max_shard_bytes = 1});
  EXPECT_EQ(find_weight_files(folder_.path()).paths.size(), model_.parameters.size());
  EXPECT_EQ(read_back(model_.parameters.back()), expected(model_.parameters.back()));
}

TEST_F(HuggingFaceWriter, SixteenBitsAreRounded) {
  write({.dtype = TSR_BF16});
  for (const Parameter& parameter : model_.parameters) {
    std::vector<float> rounded = expected(parameter);
    for (float& value : rounded)
      value = bf16_to_float(float_to_bf16(value));
    EXPECT_EQ(read_back(parameter), rounded) << parameter.name;
  }
  EXPECT_EQ(json::parse(file_bytes(folder_.path("config.json")))["torch_dtype"], "bfloat16");
}

/// The initial values, but for one.
class WithOneValue : public ParameterSource {
 public:
  WithOneValue(const ParameterSource& others, std::string parameter, uint64_t element, float value)
      : others_(others), parameter_(std::move(parameter)), element_(element), value_(value) {}

  void read(std::string_view parameter, uint64_t offset, std::span<float> out) const override {
    others_.read(parameter, offset, out);
    if (parameter == parameter_ && element_ >= offset && element_ - offset < out.size())
      out[element_ - offset] = value_;
  }

 private:
  const ParameterSource& others_;
  const std::string parameter_;
  const uint64_t element_;
  const float value_;
};

TEST_F(HuggingFaceWriter, WeightsThatNothingLoadsAreRefused) {
  const std::string name = model_.parameters[1].name;
  const auto refused = [&](float value, tsr_dtype dtype, const std::string& sentence) {
    const WithOneValue weights(values_, name, 3, value);
    expect_error(
        [&] { write_hugging_face_folder(*architecture_, weights, {.folder = folder_.path(), .dtype = dtype}); },
        {"element 3 of " + name + " is " + sentence});
    EXPECT_FALSE(std::filesystem::exists(folder_.path("model.safetensors")));
    EXPECT_FALSE(std::filesystem::exists(folder_.path("config.json")));
  };
  const std::string advice = ", and nothing loads such weights; convert an intact model";
  for (const tsr_dtype dtype : {TSR_F32, TSR_BF16, TSR_F16}) {
    refused(std::numeric_limits<float>::quiet_NaN(), dtype, "nan" + advice);
    refused(-std::numeric_limits<float>::infinity(), dtype, "-inf" + advice);
  }
  refused(70000, TSR_F16, "70000, more than float16 holds; give --dtype float32");
}

TEST_F(HuggingFaceWriter, FilesBeforeTheOneThatFailsAreRemoved) {
  const WithOneValue weights(values_, model_.parameters.back().name, 0, std::numeric_limits<float>::quiet_NaN());
  expect_error(
      [&] {
        write_hugging_face_folder(*architecture_, weights, {.folder = folder_.path(), .max_shard_bytes = 20'000});
      },
      {" is nan"});
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(HuggingFaceWriter, TheConfigIsThatOfTheModel) {
  for (const char* name : {"gpt2", "gpt2_xl"}) {
    const TempFolder folder;
    const auto architecture = find_architecture(name).architecture;
    folder.write("config.json", architecture->hugging_face_config("float32"));
    const NamedArchitecture read = find_architecture(folder.path());
    EXPECT_TRUE(read.warnings.empty());
    const auto facts = architecture->facts(), facts_read = read.architecture->facts();
    ASSERT_EQ(facts.size(), facts_read.size());
    for (size_t i = 0; i < facts.size(); ++i)
      EXPECT_EQ(facts[i].value, facts_read[i].value) << facts[i].name;
    EXPECT_EQ(json::parse(file_bytes(folder.path("config.json")))["eos_token_id"], 50256);
  }
}

TEST_F(HuggingFaceWriter, TheConfigKeepsTheTokensThatEndTexts) {
  const auto written = [](const std::string& tokens) {
    const TempFolder folder;
    folder.write("config.json", R"({"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 8, "n_positions": 8,)" +
                                    tokens + R"("vocab_size": 60000})");
    return json::parse(find_architecture(folder.path()).architecture->hugging_face_config("float32"));
  };
  EXPECT_EQ(written("")["eos_token_id"], 50256);
  EXPECT_EQ(written("")["bos_token_id"], 50256);
  const json given = written(R"("bos_token_id": null, "eos_token_id": [5, 59999],)");
  EXPECT_EQ(given["bos_token_id"], nullptr);
  EXPECT_EQ(given["eos_token_id"], json({5, 59999}));
  for (const char* wrong : {"60000", "-1", "\"x\"", "[[1]]", "1.5"})
    EXPECT_EQ(written(R"("eos_token_id": )" + std::string(wrong) + ",")["eos_token_id"], 50256) << wrong;
}

TEST(HuggingFace, HasNoPerceptrons) {
  const TempFolder folder;
  const auto mlp = find_architecture("mlp:4,8,3").architecture;
  const InitialValues values(1, mlp->build({.batch = 1, .seq = 0}).parameters);
  expect_error([&] { write_hugging_face_folder(*mlp, values, {.folder = folder.path()}); },
               {"Hugging Face has no model of this kind"});
}

}  // namespace
}  // namespace tessera::testing
