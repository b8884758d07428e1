// `tessera tokenize`, and training on what it writes.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "e2e/cli.h"

namespace tessera::testing {
namespace {

const std::string kTokenizer = source_dir("tests/golden/tokenizer");

std::vector<uint16_t> tokens_in(const std::string& path) {
  const std::string bytes = file_bytes(path).substr(1024);
  std::vector<uint16_t> tokens(bytes.size() / 2);
  std::memcpy(tokens.data(), bytes.data(), bytes.size());
  return tokens;
}

CommandResult tokenize(std::vector<std::string> more) {
  more.insert(more.begin(), "tokenize");
  return run_command(tessera(more));
}

TEST(Tokenize, WritesTokensThatTrainReads) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += "The ranks of a mesh compare their settings.\n";
  const std::string in = folder.write("a.txt", text + "<|endoftext|>"), out = folder.path("a.bin");
  const CommandResult made = tokenize({"--tokenizer", kTokenizer, in, out});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const std::vector<uint16_t> tokens = tokens_in(out);
  EXPECT_EQ(tokens.back(), 0);
  EXPECT_NE(made.err.find(std::to_string(text.size() + 13) + " bytes are " + std::to_string(tokens.size()) +
                          " tokens of 600, in " + out),
            std::string::npos)
      << made.err;
  const std::string config = R"({"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "vocab_size": 600,
                                "n_positions": 16, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0})";
  folder.write("model/config.json", config);
  const CommandResult run = run_command(
      tessera({"train", "--model", folder.path("model"), "--data", out, "--steps=1", "--batch-size=1", "--threads=1"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.err.find("llm.c file of uint16 tokens (" + std::to_string(tokens.size()) + " tokens)"),
            std::string::npos)
      << run.err;
}

TEST(Tokenize, ReplacesItsOwnFilesAndNoOthers) {
  const TempFolder folder;
  const std::string in = folder.write("a.txt", "the text"), other = folder.write("b.txt", "another text");
  const std::string out = folder.path("a.bin");
  EXPECT_EQ(tokenize({"--tokenizer", kTokenizer, in, out}).exit_code, 0);
  const std::string first = file_bytes(out);
  EXPECT_EQ(tokenize({"--tokenizer=" + kTokenizer, other, out}).exit_code, 0);
  EXPECT_NE(file_bytes(out), first);
  folder.write("a.bin", golden() + "text of somebody else");
  const CommandResult refused = tokenize({"--tokenizer", kTokenizer, in, out});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("exists and was not written by tessera"), std::string::npos) << refused.err;
  EXPECT_EQ(tokenize({"--tokenizer", kTokenizer, in, out, "--overwrite"}).exit_code, 0);
  EXPECT_EQ(file_bytes(out), first);
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--overwrite"}}) {
    std::vector<std::string> words = {"--tokenizer", kTokenizer, out, out};
    words.insert(words.end(), more.begin(), more.end());
    expect_message(tokenize(words), 2, {"OUT " + out + " is a file that the job reads for IN"});
    EXPECT_EQ(file_bytes(out), first);
  }
}

TEST(Tokenize, DoesNotWriteIntoACheckpoint) {
  const TempFolder folder;
  folder.write("index.json", R"({"crc32c": "00000000",)");
  const std::string out = folder.path("a.bin");
  expect_message(tokenize({"--tokenizer", kTokenizer, folder.write("a.txt", "the text"), out}), 2,
                 {"OUT " + out + " is in a checkpoint, which has its own files alone; give another folder"});
}

TEST(Tokenize, LeavesNoHalfOfAFile) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 2000; ++i)
    text += std::to_string(i * i) + " ";
  const std::string in = folder.write("a.txt", text), out = folder.path("a.bin");
  // At most 4 KiB, which is more than the header: as a disk that is full.
  const CommandResult run = run_command({"/bin/sh", "-c", "ulimit -f 8; exec \"$@\"", "sh", tessera_program(),
                                         "tokenize", "--tokenizer", kTokenizer, in, out});
  expect_message(run, 1, {out, "File too large"});
  EXPECT_FALSE(std::filesystem::exists(out)) << "half of it would be read as the whole";
}

TEST(Tokenize, RefusesATokenizerWhosePartIsAText) {
  const TempFolder folder;
  auto file = nlohmann::json::parse(file_bytes(kTokenizer + "/tokenizer.json"));
  file["pre_tokenizer"] = "ByteLevel";
  const std::string text = folder.write("a.txt", "the text"), bad = folder.write("tokenizer.json", file.dump());
  expect_message(tokenize({"--tokenizer", bad, text, folder.path("a.bin")}), 1,
                 {bad + ": \"pre_tokenizer\" is \"ByteLevel\"; it must be an object of that type"});
}

TEST(Tokenize, WarnsOfBytesThatAreNotUtf8) {
  const TempFolder folder;
  const CommandResult run =
      tokenize({"--tokenizer", kTokenizer, folder.write("a.txt", "caf\xe9"), folder.path("a.bin")});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_NE(run.err.find("is not UTF-8 at byte 3"), std::string::npos) << run.err;
}

TEST(Tokenize, HasHelp) {
  const CommandResult help = tokenize({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_TRUE(help.out.starts_with("usage: tessera tokenize --tokenizer FILE IN OUT.bin\n")) << help.out;
  EXPECT_NE(help.out.find("--overwrite"), std::string::npos);
}

}  // namespace
}  // namespace tessera::testing
