#include "model/gpt2/gpt2_config.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "model/gpt2/gpt2.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temp_folder.h"

namespace tessera::host {
namespace {

using testing::expect_error;
using testing::TempFolder;

// A config.json of a small model, with some keys replaced, added, or left out (empty text).
std::string config_text(const std::map<std::string, std::string>& changes = {}) {
  std::map<std::string, std::string> keys = {{"model_type", "\"gpt2\""}, {"n_layer", "2"},     {"n_head", "4"},
                                             {"n_embd", "48"},           {"vocab_size", "96"}, {"n_positions", "64"}};
  for (const auto& change : changes)
    keys[change.first] = change.second;
  std::string text = "{";
  for (const auto& key : keys) {
    if (key.second.empty()) continue;
    text += (text.size() == 1 ? "\"" : ", \"") + key.first + "\": " + key.second;
  }
  return text + "}\n";
}

Gpt2ConfigFile read(const std::map<std::string, std::string>& changes = {}) {
  const TempFolder folder;
  return read_gpt2_config(ConfigFile(folder.write("config.json", config_text(changes))));
}

TEST(Gpt2Config, FourSizesByName) {
  EXPECT_EQ(gpt2_config_by_name("gpt2").value(), (Gpt2Config{12, 12, 768, 50257, 1024, 3072}));
  EXPECT_EQ(gpt2_config_by_name("gpt2_medium").value(), (Gpt2Config{24, 16, 1024, 50257, 1024, 4096}));
  EXPECT_EQ(gpt2_config_by_name("gpt2_large").value(), (Gpt2Config{36, 20, 1280, 50257, 1024, 5120}));
  EXPECT_EQ(gpt2_config_by_name("gpt2_xl").value(), (Gpt2Config{48, 25, 1600, 50257, 1024, 6400}));
  EXPECT_EQ(gpt2_names().size(), 4u);
}

TEST(Gpt2Config, OtherNamesAreNotSizes) {
  for (const char* name : {"gpt2_larg", "gpt", "GPT2", ""})
    EXPECT_FALSE(gpt2_config_by_name(name).has_value()) << name;
}

TEST(Gpt2Config, ReadsTheGoldenModel) {
  const Gpt2ConfigFile file = read_gpt2_config(ConfigFile(testing::source_dir("tests/golden/gpt2-nano/config.json")));
  EXPECT_EQ(file.config, (Gpt2Config{4, 4, 48, 96, 64, 192}));
  EXPECT_TRUE(file.dropouts.empty());
}

TEST(Gpt2Config, ReadsOptionalKeys) {
  EXPECT_EQ(read({}).config.initializer_range, 0.02);
  const Model wide = make_gpt2(read({{"initializer_range", "0.5"}}).config, {.batch = 1, .seq = 1});
  EXPECT_EQ(wide.parameters[0].initial, (InitialRule{0.0f, 0.5f}));
  const Gpt2Config config = read({{"n_inner", "100"}, {"layer_norm_epsilon", "1e-6"}}).config;
  EXPECT_EQ(config.ffn, 100);
  EXPECT_EQ(config.epsilon, 1e-6);
  EXPECT_EQ(read({{"n_inner", "null"}}).config.ffn, 4 * 48);
  EXPECT_EQ(read().config.epsilon, 1e-5);
  EXPECT_NO_THROW(read({{"architectures", "[\"GPT2LMHeadModel\"]"}, {"task_specific_params", "{\"a\": {\"b\": 1}}"}}));
}

TEST(Gpt2Config, Activations) {
  EXPECT_EQ(read().config.activation, TSR_ACTIVATION_GELU_TANH);
  EXPECT_EQ(read({{"activation_function", "\"gelu_new\""}}).config.activation, TSR_ACTIVATION_GELU_TANH);
  EXPECT_EQ(read({{"activation_function", "\"gelu_pytorch_tanh\""}}).config.activation, TSR_ACTIVATION_GELU_TANH);
  EXPECT_EQ(read({{"activation_function", "\"relu\""}}).config.activation, TSR_ACTIVATION_RELU);
  expect_error(
      [] {
        read({{"activation_function", "\"silu\""}});
      },
      {"config.json", "activation_function", "silu", "gelu_new", "gelu_pytorch_tanh", "relu"});
}

TEST(Gpt2Config, ListsDropoutsThatAreNotApplied) {
  const std::map<std::string, std::string> changes = {
      {"resid_pdrop", "0.1"}, {"embd_pdrop", "0.0"}, {"attn_pdrop", "0.25"}};
  EXPECT_EQ(read(changes).dropouts, (std::vector<std::string>{"resid_pdrop 0.1", "attn_pdrop 0.25"}));
}

TEST(Gpt2Config, MissingKeysAreNamed) {
  for (const char* key : {"n_layer", "n_head", "n_embd", "vocab_size", "n_positions"}) {
    expect_error([&] { read({{key, ""}}); }, {"config.json", key, "missing"});
    expect_error([&] { read({{key, "null"}}); }, {"config.json", key, "missing"});
  }
}

TEST(Gpt2Config, WrongValuesAreNamed) {
  for (const char* key : {"n_layer", "n_head", "n_embd", "vocab_size", "n_positions", "n_inner"}) {
    for (const char* value : {"0", "-1", "2.5", "\"12\"", "true", "[1]", "99999999999", "18446744073709551616"}) {
      expect_error([&] { read({{key, value}}); }, {"config.json", key, "whole number"});
    }
  }
  expect_error([] { read({{"layer_norm_epsilon", "0"}}); }, {"layer_norm_epsilon"});
  for (const char* wrong : {"0", "-0.02", "1.5"})
    expect_error([&] { read({{"initializer_range", wrong}}); }, {"initializer_range", "more than 0 and at most 1"});
  expect_error([] { read({{"layer_norm_epsilon", "\"small\""}}); }, {"layer_norm_epsilon", "not a number"});
  expect_error([] { read({{"resid_pdrop", "\"none\""}}); }, {"resid_pdrop", "not a number"});
  expect_error([] { read({{"tie_word_embeddings", "1"}}); }, {"tie_word_embeddings", "not true or false"});
  expect_error([] { read({{"n_head", "5"}}); }, {"n_embd", "48", "5 heads", "n_head"});
}

TEST(Gpt2Config, OtherArithmeticIsRefused) {
  for (const char* key : {"tie_word_embeddings", "scale_attn_weights"}) {
    EXPECT_NO_THROW(read({{key, "true"}}));
    expect_error([&] { read({{key, "false"}}); }, {"config.json", key, "false", "not supported"});
  }
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"}) {
    EXPECT_NO_THROW(read({{key, "false"}}));
    expect_error([&] { read({{key, "true"}}); }, {"config.json", key, "true", "not supported"});
  }
}

TEST(Gpt2Config, MalformedFilesAreRefused) {
  const TempFolder folder;
  expect_error([&] { ConfigFile(folder.path("config.json")); }, {"config.json", "No such file"});
  expect_error([&] { ConfigFile(folder.path()); }, {folder.path(), "not a regular file"});
  for (const std::string& text : {std::string(), std::string("{"), std::string("[1]"), std::string("{} {}"),
                                  std::string("{\"a\": \"\xff\"}"), config_text() + std::string(1, '\0')}) {
    expect_error([&] { ConfigFile(folder.write("config.json", text)); }, {"config.json"});
  }
  expect_error([&] { ConfigFile(folder.write("config.json", R"({"n_layer": 2, "n_layer": 3})")); },
               {"config.json", "\"n_layer\" twice"});
  std::string deep = "{\"a\": ";
  deep += std::string(50'000, '[') + std::string(50'000, ']') + "}";
  expect_error([&] { ConfigFile(folder.write("config.json", deep)); }, {"config.json", "nests deeper"});
}

}  // namespace
}  // namespace tessera::host
