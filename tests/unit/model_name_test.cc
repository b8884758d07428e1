// What --model may be, and what is said of the rest.
#include "model/model_name.h"

#include <gtest/gtest.h>

#include <filesystem>

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
    const std::string text = expect_error([&] { is_model_folder(given); }, parts);
    EXPECT_TRUE(text.starts_with("--model ")) << text;
    EXPECT_LT(text.size(), 400u) << text;
  }
}

}  // namespace
}  // namespace tessera::testing
