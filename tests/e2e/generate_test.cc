// `tessera generate` as a user types it: texts, bytes, token numbers.
#include <gtest/gtest.h>

#include "e2e/cli.h"
#include "support/terminal.h"

namespace tessera::testing {
namespace {

const std::string kTalk = source_dir("tests/golden/gpt2-talk");
const std::string kTokenizer = source_dir("tests/golden/tokenizer");

CommandResult generate(std::vector<std::string> more) {
  more.insert(more.begin(), "generate");
  more.push_back("--threads=1");
  return run_command(tessera(more));
}

std::string text_of(const CommandResult& run) {
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run.out;
}

TEST(Generate, PrintsTheTokensOfTheReference) {
  const auto golden_case = nlohmann::json::parse(file_bytes(kTalk + "/cases.json"))["cases"][1];
  std::string expected;
  for (const char* part : {"prompt", "greedy"})
    for (const int token : golden_case[part].get<std::vector<int>>())
      expected += (expected.empty() ? "" : " ") + std::to_string(token);
  EXPECT_EQ(text_of(generate({kTalk, "--prompt", "1, 2 3 4 5 6 7", "--max-tokens=60", "--temperature=0"})),
            expected + "\n");
}

TEST(Generate, GivesTheSameTextForASeed) {
  const auto text = [](const char* seed) {
    return text_of(generate({kTalk, "--prompt=1", "--max-tokens=50", "--temperature=8", seed}));
  };
  EXPECT_EQ(text("--seed=3"), text("--seed=3"));
  EXPECT_NE(text("--seed=3"), text("--seed=4"));
  EXPECT_NE(text("--seed=3"), text("--seed=9223372036854775807"));
}

/// A folder with a model of one block of that vocabulary and a context of 8, whose weights count up to 6.
std::string model_of(const TempFolder& folder, int vocab) {
  nlohmann::ordered_json header;
  std::string bytes;
  const auto add = [&](const std::string& name, std::vector<int> shape, float value) {
    size_t num = 1;
    for (const int extent : shape)
      num *= static_cast<size_t>(extent);
    const size_t begin = bytes.size();
    for (size_t i = 0; i < num; ++i)
      bytes += raw_bytes(std::vector<float>{value * static_cast<float>(i % 7)});
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, bytes.size()}}};
  };
  add("wte.weight", {vocab, 4}, 0.1f);
  add("wpe.weight", {8, 4}, 0.2f);
  for (const char* name : {"h.0.ln_1", "h.0.ln_2", "ln_f"}) {
    add(std::string(name) + ".weight", {4}, 1.0f);
    add(std::string(name) + ".bias", {4}, 0.1f);
  }
  for (const auto& [name, in, out] :
       {std::tuple{"attn.c_attn", 4, 12}, {"attn.c_proj", 4, 4}, {"mlp.c_fc", 4, 16}, {"mlp.c_proj", 16, 4}}) {
    add("h.0." + std::string(name) + ".weight", {in, out}, 0.3f);
    add("h.0." + std::string(name) + ".bias", {out}, 0.1f);
  }
  const std::string text = header.dump();
  folder.write("model/model.safetensors", raw_bytes(std::vector<uint64_t>{text.size()}) + text + bytes);
  folder.write("model/config.json", nlohmann::json{{"model_type", "gpt2"},
                                                   {"n_layer", 1},
                                                   {"n_head", 2},
                                                   {"n_embd", 4},
                                                   {"vocab_size", vocab},
                                                   {"n_positions", 8},
                                                   {"resid_pdrop", 0},
                                                   {"embd_pdrop", 0},
                                                   {"attn_pdrop", 0}}
                                        .dump());
  return folder.path("model");
}

TEST(Generate, OfAModelOfBytesPrintsBytes) {
  const TempFolder folder;
  const std::string model = model_of(folder, 300);  // 44 tokens more than bytes: never drawn
  const std::string text = text_of(generate({model, "--prompt=Hi", "--max-tokens=400", "--temperature=9"}));
  EXPECT_TRUE(text.starts_with("Hi")) << text;
  EXPECT_EQ(text.size(), 2u + 400u + 1u);
  EXPECT_TRUE(text_of(generate({model, "--max-tokens=1"})).starts_with("\n"));
}

// A terminal would obey control characters; characters of several bytes come a byte at a time.
TEST(Generate, OfAModelOfBytesIsEscapedOnATerminal) {
  const TempFolder folder;
  const TerminalResult run =
      run_on_terminal(tessera({"generate", model_of(folder, 256), "--prompt=caf\xc3\xa9\t\x1b[2J\x0e\xe2\x82x",
                               "--max-tokens=400", "--temperature=9", "--threads=1"}),
                      {{"TERM", "dumb"}}, 80);
  EXPECT_EQ(run.exit_code, 0) << run.written;
  const size_t prompt = run.written.find("caf\xc3\xa9\t\\x1b[2J\\x0e\\xe2\\x82x");
  ASSERT_NE(prompt, std::string::npos) << run.written;
  const std::string text = run.written.substr(prompt, run.written.rfind("\r\n[") - prompt);  // without the log
  for (const char c : text)
    EXPECT_TRUE(c == '\n' || c == '\r' || c == '\t' || static_cast<unsigned char>(c) >= 0x20) << run.written;
  EXPECT_EQ(run.written.find('\x1b'), std::string::npos) << run.written;
}

TEST(Generate, WithATokenizerPrintsText) {
  const TempFolder folder;
  const std::string model = model_of(folder, 640);  // padded: the tokenizer has 600
  const std::string text =
      text_of(generate({model, "--tokenizer", kTokenizer, "--prompt=The ranks", "--max-tokens=50", "--temperature=9"}));
  EXPECT_TRUE(text.starts_with("The ranks")) << text;
  EXPECT_GT(text.size(), 60u);
  EXPECT_TRUE(text_of(generate({model, "--tokenizer", kTokenizer, "--max-tokens=3"})).starts_with("<|endoftext|>"));
}

TEST(Generate, DrawsNoNumberThatTheTokenizerLeavesOut) {
  const TempFolder folder;
  auto file = nlohmann::json::parse(file_bytes(kTokenizer + "/tokenizer.json"));
  auto pad = file["added_tokens"][0];
  pad["id"] = 639, pad["content"] = "<pad>";  // 600 to 638 have no text
  file["added_tokens"].push_back(pad);
  const std::string tokenizer = folder.write("tokenizer.json", file.dump()), model = model_of(folder, 640);
  for (const char* seed : {"--seed=1", "--seed=2", "--seed=3"})
    text_of(generate({model, "--tokenizer", tokenizer, "--prompt=a", "--max-tokens=60", "--temperature=9", seed}));
}

TEST(Generate, EndsWhereItsOutputEnds) {
  const std::string program = tessera({})[0];
  const CommandResult run =
      run_command({"/bin/sh", "-c",
                   program + " generate " + kTalk + " --prompt 1 --threads=1 --max-tokens 1000000000000 > /dev/full"});
  expect_message(run, 1, {"No space left on device"});
}

/// Later positions were never trained.
TEST(Generate, OfACheckpointLooksBackAsFarAsItWasTrained) {
  const TempFolder folder;
  const std::string saved = folder.path("saved");
  const CommandResult run = run_command(tessera({"train", "--model=" + source_dir("examples/char"),
                                                 "--data=" + folder.write("text", std::string(99, 'x')), "--seq-len=16",
                                                 "--steps=1", "--batch-size=1", "--save=" + saved}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto text = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {saved, "--prompt=Hi", "--max-tokens=60"});
    return text_of(generate(more));
  };
  EXPECT_EQ(text({}), text({"--context=16"}));
  EXPECT_NE(text({}), text({"--context=128"}));
}

TEST(Generate, OfNothingSaysWhatToGive) {
  const TempFolder folder;
  expect_message(generate({model_of(folder, 256), "--prompt="}), 2,
                 {"--prompt has no token; give the text to continue, or leave it out"});
  expect_message(generate({kTalk, "--prompt="}), 2, {"--prompt has no token; give token numbers (\"12 7 5\"), or "});
}

TEST(Generate, SaysWhatALongPromptLoses) {
  const TempFolder folder;
  const CommandResult run = generate({model_of(folder, 256), "--prompt=0123456789", "--max-tokens=1"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_NE(run.err.find("the prompt has 10 tokens, and the model looks back on 8"), std::string::npos) << run.err;
}

/// By its vocabulary the model is one of bytes; its checkpoint knows what it was trained on.
TEST(Generate, ByBytesOfAModelOfTokenFilesIsWarnedOf) {
  const TempFolder folder;
  folder.write("m/config.json", R"({"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "vocab_size": 256,
                                    "n_positions": 16})");
  const std::string text = folder.write("a.txt", std::string(200, '!'));
  const std::string warning = "was trained on token files, and its tokens are taken for bytes";
  for (const std::string& data : {text, golden("/tokens.bin")}) {
    const std::string saved = folder.path(data == text ? "of-bytes" : "of-numbers");
    expect_message(run_command(tessera({"train", "--model", folder.path("m"), "--data", data, "--batch-size=1",
                                        "--steps=1", "--threads=1", "--save", saved})),
                   0, {});
    const CommandResult run = generate({saved, "--max-tokens=1"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.err.find(warning) != std::string::npos, data != text) << run.err;
  }
}

}  // namespace
}  // namespace tessera::testing
