// What --model may be, and the errors for anything else.
#include "model/model_name.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "config/usage_error.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace tessera::testing {
using namespace host;
namespace {

namespace fs = std::filesystem;

TEST(ModelName, AFolderWithAConfigIsAFolder) {
  const TempFolder folder;
  folder.write("config.json", "{}");
  EXPECT_TRUE(is_model_folder(folder.path()));
  EXPECT_TRUE(is_model_folder(folder.path() + "/"));
}

TEST(ModelName, ALinkCountsAsAConfigSoThatOpeningItSaysWhatIsWrong) {
  const TempFolder folder;
  fs::create_symlink("/nonexistent", folder.path("config.json"));
  EXPECT_TRUE(is_model_folder(folder.path()));
}

TEST(ModelName, OtherNamesAreForTheTableOfSizes) {
  for (const char* name : {"gpt2", "gpt2_xl", "gpt3", "llama"})
    EXPECT_FALSE(is_model_folder(name)) << name;
}

TEST(ModelName, WhatCannotBeAModelIsNamedForWhatItIs) {
  const TempFolder folder;
  const std::string file = folder.write("model.safetensors", "x");
  fs::create_symlink("nowhere", folder.path("link"));
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {folder.path(), {"holds no config.json"}},
      {folder.path("absent"), {"no such folder", "config.json"}},
      {"./absent", {"no such folder"}},
      {".absent", {"no such folder"}},
      {file, {"is not a folder", "give the folder"}},
      {file + "/x", {"no such folder"}},
      {folder.path("link"), {"link that leads nowhere"}},
      {"~/absent", {"no such folder", "home"}},
      {"openai-community/gpt2",
       {"hf download openai-community/gpt2 config.json model.safetensors --local-dir gpt2", "--model ./gpt2"}},
      {"https://huggingface.co/gpt2", {"is an address", "hf download"}},
      {"GPT2", {"did you mean gpt2?"}},
      {"GPT2-medium", {"did you mean gpt2_medium?"}},
      {"gpt2/", {"did you mean gpt2?"}},
      {"\033[31mx", {"--model \033[31mx", "control characters"}},
      {std::string(5000, 'a'), {"aaa...", "5000 letters", "too many"}}};
  for (const auto& [given, parts] : cases) {
    const std::string text = expect_error([&, given = given] { is_model_folder(given); }, parts);
    EXPECT_TRUE(text.starts_with("--model ")) << text;
    EXPECT_LT(text.size(), 400u) << text;
  }
}

TEST(FindArchitecture, UnknownNamesListTheNames) {
  expect_error<UsageError>([] { find_architecture("gpt2_larg"); },
                           {"gpt2_larg", "did you mean gpt2_large?",
                            "gpt2, gpt2_medium, gpt2_large, gpt2_xl, mlp:INPUTS,HIDDEN,...,CLASSES, or a folder"});
  expect_error<UsageError>([] { find_architecture("./absent"); }, {"no such folder"});
}

TEST(FindArchitecture, ASizeHasItsHubsNameAndNoWarning) {
  const NamedArchitecture medium = find_architecture("gpt2_medium");
  EXPECT_EQ(medium.architecture->summary(), "24 layers, 16 heads, width 1024");
  EXPECT_EQ(medium.hub_id, "openai-community/gpt2-medium");
  EXPECT_TRUE(medium.warnings.empty());
}

TEST(FindArchitecture, AFolderIsReadByItsModelType) {
  const TempFolder folder;
  const auto find = [&](const std::string& type, const std::string& more = "") {
    folder.write("config.json", "{" + type + R"("n_layer": 2, "n_head": 4, "n_embd": 48, "vocab_size": 96, )" + more +
                                    R"("n_positions": 64})");
    return find_architecture(folder.path());
  };
  const NamedArchitecture nano = find(R"("model_type": "gpt2", )", R"("resid_pdrop": 0.1, )");
  EXPECT_EQ(nano.architecture->summary(), "2 layers, 4 heads, width 48");
  EXPECT_EQ(nano.hub_id, "");
  EXPECT_EQ(nano.warnings, std::vector{"dropout is not applied: resid_pdrop 0.1 in " + folder.path("config.json")});
  expect_error([&] { find(""); }, {"config.json", "\"model_type\" is missing; \"gpt2\" is supported"});
  expect_error([&] { find(R"("model_type": null, )"); }, {"\"model_type\" is missing"});
  expect_error([&] { find(R"("model_type": "llama", )"); },
               {"\"model_type\" is \"llama\"; only \"gpt2\" is supported"});
  expect_error([&] { find(R"("model_type": "", )"); }, {"only \"gpt2\" is supported"});
  expect_error([&] { find(R"("model_type": 7, )"); }, {"\"model_type\" is 7, not a string"});
}

}  // namespace
}  // namespace tessera::testing
