// `tessera convert` as a user types it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <set>
#include <string>

#include "e2e/cli.h"

namespace tessera::testing {
namespace {

std::string loss_of(const std::string& folder) {
  const TempFolder here;
  const CommandResult run = run_command(tessera(
      {"eval", folder, "--data", golden("/tokens.bin"), "--threads=1", "--seq-len=64", "--metrics", here.path("m")}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto lines = read_json_lines(here.path("m"));
  return lines.empty() ? "" : lines.back()["loss"].dump();
}

TEST(Convert, AConvertedModelIsTheSame) {
  const TempFolder folder;
  const std::string expected = loss_of(golden());
  std::string from = golden();
  for (const char* flag : {"--max-shard-size=100kB", "--max-shard-size=5GB"}) {  // there, and back
    const std::string to = folder.path(flag + 2);
    const CommandResult made = run_command(tessera({"convert", from, to, flag}));
    ASSERT_EQ(made.exit_code, 0) << made.err;
    EXPECT_EQ(loss_of(to), expected);
    from = to;
  }
}

TEST(Convert, TakesAlongWhatBelongsToTheModel) {
  const TempFolder folder;
  nlohmann::json config = nlohmann::json::parse(file_bytes(golden("/config.json")));
  config["resid_pdrop"] = 0.1;
  config["attn_pdrop"] = 0.25;
  folder.write("in/config.json", config.dump());
  folder.write("in/model.safetensors", file_bytes(golden("/model.safetensors")));
  folder.write("in/merges.txt", "#version: 0.2\n");
  folder.write("in/generation_config.json", R"({"temperature": 0.7})");
  folder.write("in/notes.txt", "private");
  ASSERT_EQ(run_command(tessera({"convert", folder.path("in"), folder.path("out")})).exit_code, 0);
  EXPECT_EQ(file_bytes(folder.path("out/merges.txt")), "#version: 0.2\n");
  EXPECT_EQ(file_bytes(folder.path("out/generation_config.json")), R"({"temperature": 0.7})");
  EXPECT_FALSE(std::filesystem::exists(folder.path("out/notes.txt")));
  const nlohmann::json written = nlohmann::json::parse(file_bytes(folder.path("out/config.json")));
  EXPECT_EQ(written["resid_pdrop"], 0.1);
  EXPECT_EQ(written["embd_pdrop"], 0.0);
  EXPECT_EQ(written["attn_pdrop"], 0.25);
}

TEST(Convert, ATokenizerThatIsNoFileIsRefusedBeforeAnythingIsWritten) {
  const TempFolder folder;
  for (const char* name : {"config.json", "model.safetensors"})
    folder.write(std::string("in/") + name, file_bytes(golden(std::string("/") + name)));
  ASSERT_EQ(::mkfifo(folder.path("in/tokenizer.json").c_str(), 0600), 0);
  expect_message(run_command(tessera({"convert", folder.path("in"), folder.path("out")})), 1,
                 {"in/tokenizer.json is a pipe, not a regular file"});
  EXPECT_FALSE(std::filesystem::exists(folder.path("out")));
}

TEST(Convert, ChangesNoFolderThatIsThere) {
  const TempFolder folder;
  folder.write("out/model.safetensors", "of somebody");
  const CommandResult refused = run_command(tessera({"convert", golden(), folder.path("out")}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("exists and is not empty; give the name of a new folder"), std::string::npos)
      << refused.err;
  EXPECT_EQ(file_bytes(folder.path("out/model.safetensors")), "of somebody");
}

TEST(Convert, TakesOverWhatAnInterruptedConversionHasLeft) {
  const TempFolder folder;
  for (const char* name : {"convert.lock", "model-00001-of-00002.safetensors", "model.safetensors.partial",
                           "vocab.json", "config.json.77.partial"})
    folder.write(std::string("out/") + name, "a part");
  const CommandResult made = run_command(tessera({"convert", golden(), folder.path("out")}));
  EXPECT_EQ(made.exit_code, 0) << made.err;
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("out")))
    names.insert(entry.path().filename().string());
  EXPECT_EQ(names, (std::set<std::string>{"config.json", "model.safetensors"}));
  EXPECT_EQ(loss_of(folder.path("out")), loss_of(golden()));
}

TEST(Convert, AFolderWithMoreThanAConversionWritesIsNotTakenOver) {
  const TempFolder folder;
  folder.write("out/convert.lock", "");
  folder.write("out/notes.txt", "of somebody");
  expect_message(run_command(tessera({"convert", golden(), folder.path("out")})), 2, {"exists and is not empty"});
  EXPECT_EQ(file_bytes(folder.path("out/notes.txt")), "of somebody");
}

TEST(Convert, LeavesNothingWhereItFails) {
  const TempFolder folder;
  folder.write("in/config.json", file_bytes(golden("/config.json")));
  std::string weights = file_bytes(golden("/model.safetensors"));
  const float large = 1e6f;
  std::memcpy(weights.data() + weights.size() - sizeof large, &large, sizeof large);
  folder.write("in/model.safetensors", weights);
  const auto convert = [&](const std::string& out) {
    expect_message(run_command(tessera({"convert", folder.path("in"), folder.path(out), "--dtype=fp16"})), 1,
                   {"1e+06, more than float16 holds; give --dtype float32"});
  };
  convert("out");
  EXPECT_FALSE(std::filesystem::exists(folder.path("out")));
  std::filesystem::create_directory(folder.path("there"));
  convert("there");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("there")));
}

}  // namespace
}  // namespace tessera::testing
