// Our tokenizer against what the `tokenizers` package made of the same texts (tests/golden/tokenizer/make.py).
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temp_folder.h"
#include "text/utf8.h"

namespace tessera::host {
namespace {

using nlohmann::json;
using testing::expect_error;
using testing::file_bytes;
using testing::TempFolder;

const std::string kFolder = testing::source_dir("tests/golden/tokenizer");

std::string text_of(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens) {
  std::string text;
  for (const int32_t token : tokens)
    text += tokenizer.bytes_of(token);
  return text;
}

class TokenizerFrom : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerFrom, HasTheTokensOfTheReference) {
  const Tokenizer tokenizer(kFolder + GetParam());
  EXPECT_EQ(tokenizer.num_tokens(), 600);
  const json golden = json::parse(file_bytes(kFolder + "/cases.json"));
  for (const json& entry : golden["cases"]) {
    const std::string text = entry["text"];
    EXPECT_EQ(tokenizer.encode(text), entry["tokens"].get<std::vector<int32_t>>()) << entry["text"];
    EXPECT_EQ(text_of(tokenizer, tokenizer.encode(text)), text);
  }
  EXPECT_GT(golden["cases"].size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Files, TokenizerFrom, ::testing::Values("", "/tokenizer.json", "/vocab.json"),
                         [](const auto& tested) {
                           return tested.index == 0 ? "Folder" : tested.index == 1 ? "Json" : "VocabAndMerges";
                         });

TEST(Tokenizer, GivesBackBytesThatAreNotUtf8) {
  const Tokenizer tokenizer(kFolder);
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (int j = 0; j < 40; ++j)
      text += random() % 3 ? static_cast<char>("the \n'sé"[random() % 9]) : static_cast<char>(random());
    EXPECT_EQ(text_of(tokenizer, tokenizer.encode(text)), text);
  }
}

// Longer than what is matched at once, with and without places to cut it.
TEST(Tokenizer, TakesLongTexts) {
  const Tokenizer tokenizer(kFolder);
  const std::string sentence = "The ranks of a mesh,  and a line.\n";
  const std::vector<int32_t> once = tokenizer.encode(sentence);
  std::string text;
  std::vector<int32_t> expected;
  while (text.size() < (size_t{5} << 19)) {
    text += sentence;
    expected.insert(expected.end(), once.begin(), once.end());
  }
  EXPECT_EQ(tokenizer.encode(text), expected);
  for (const char* unit : {"x", " ", "\n", "\xc2\xa0", "\xff"}) {
    std::string run;
    for (int i = 0; i < 300'000; ++i)
      run += unit;
    EXPECT_EQ(text_of(tokenizer, tokenizer.encode(run)), run);
  }
}

TEST(Tokenizer, FindsTheLongestSpecialTokenOfThoseThatBeginFirst) {
  const TempFolder folder;
  json file = json::parse(file_bytes(kFolder + "/tokenizer.json"));
  for (const auto& [content, id] : {std::pair{"<|end", 600}, {"<|endoftext|><|x|>", 601}, {"of", 602}})
    file["added_tokens"].push_back({{"id", id}, {"content", content}, {"lstrip", false}});
  const Tokenizer tokenizer(folder.write("tokenizer.json", file.dump()));
  EXPECT_EQ(tokenizer.encode("<|endoftext|>"), std::vector<int32_t>{0});
  EXPECT_EQ(tokenizer.encode("<|endoftext|><|x|>"), std::vector<int32_t>{601});
  EXPECT_EQ(tokenizer.encode("<|endof"), (std::vector<int32_t>{600, 602}));
  EXPECT_EQ(tokenizer.num_tokens(), 603);
  EXPECT_EQ(tokenizer.bytes_of(601), "<|endoftext|><|x|>");
}

TEST(Tokenizer, RefusesOtherTokenizersByName) {
  const TempFolder folder;
  const json whole = json::parse(file_bytes(kFolder + "/tokenizer.json"));
  const auto refuse = [&](const char* path, const json& value, const std::vector<std::string>& texts) {
    json file = whole;
    file[json::json_pointer(path)] = value;
    const std::string written = folder.write("tokenizer.json", file.dump());
    expect_error([&] { Tokenizer(TokenizerData(read_tokenizer_files(written))); }, texts);
  };
  refuse("/normalizer", {{"type", "NFC"}}, {"\"normalizer\" is", "NFC", "only GPT-2's byte-level BPE is supported"});
  refuse("/pre_tokenizer", {{"type", "Whitespace"}}, {"\"pre_tokenizer\" is \"Whitespace\""});
  refuse("/pre_tokenizer", nullptr, {"\"pre_tokenizer\" is null"});
  refuse("/pre_tokenizer/add_prefix_space", true, {"\"add_prefix_space\" is true"});
  refuse("/pre_tokenizer/use_regex", false, {"\"use_regex\" false"});
  refuse("/post_processor", {{"type", "TemplateProcessing"}}, {"\"post_processor\" is \"TemplateProcessing\""});
  refuse("/model/type", "Unigram", {"is not of the type \"BPE\""});
  refuse("/model/byte_fallback", true, {"\"byte_fallback\" is true"});
  refuse("/model/continuing_subword_prefix", "##", {"\"continuing_subword_prefix\" is \"##\""});
  refuse("/model/vocab/a", -1, {"the token \"a\" has the number -1"});
  refuse("/model/vocab/a", 5, {"two tokens have the number 5"});
  refuse("/model/vocab/a", 1 << 20, {"the token \"a\" has the number 1048576; expected one from 0 to 1048575"});
  refuse("/added_tokens/0/id", 5, {"the added token", "has the number 5, which is that of"});
  refuse("/added_tokens/0/id", 1 << 20, {"the added token", "has the number 1048576"});
  refuse("/model/merges/0", "one two three", {"is not two tokens with a space between them"});
  refuse("/model/merges/0", "zq qz", {"merge 1 (\"zq qz\") needs the token \"zq\""});
  refuse("/added_tokens/0/lstrip", true, {"\"lstrip\" is true"});
  expect_error([&] { Tokenizer(folder.path("nope.json")); }, {"nope.json"});
  expect_error([&] { Tokenizer(folder.write("a/vocab.json", "{}")); }, {"has no merges.txt beside it"});
  std::filesystem::create_directory(folder.path("empty"));
  expect_error([&] { Tokenizer(folder.path("empty")); }, {"has no tokenizer.json, and no vocab.json"});
}

TEST(Tokenizer, ShowsZeroBytesOfMerges) {
  const TempFolder folder;
  const std::string vocab = folder.write("vocab.json", R"({"a": 0})");
  folder.write("merges.txt", std::string("a\0b\n", 4));
  expect_error([&] { Tokenizer{vocab}; }, {"the merge \"a\\x00b\" is not two tokens"});
  folder.write("merges.txt", std::string("a \0\n", 4));
  expect_error([&] { Tokenizer{vocab}; }, {"merge 1 (\"a \\x00\") needs the token \"\\x00\", which"});
}

TEST(Tokenizer, RefusesBytesAndTokensThatItDoesNotHave) {
  TokenizerData data;
  data.tokens = {"a", "", "aa"};
  data.merges = {{0, 0, 2}};
  data.source = "small";
  const Tokenizer tokenizer(data);
  EXPECT_EQ(tokenizer.encode("aaaaa"), (std::vector<int32_t>{2, 2, 0}));
  expect_error([&] { tokenizer.encode("ab"); }, {"no token for the byte 98"});
  for (const int32_t token : {-1, 1, 3})
    expect_error([&] { tokenizer.bytes_of(token); }, {"small has no token " + std::to_string(token)});
}

TEST(Utf8, OverlongFormsSurrogatesAndCutCharactersAreNot) {
  EXPECT_EQ(first_code_point("\xe4\xb8\xad x")->value, 0x4e2du);
  EXPECT_EQ(first_code_point("\xf0\x9f\x98\x80")->value, 0x1f600u);
  for (const char* bad : {"", "\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                          "\xf4\x90\x80\x80", "\xf8\x88\x80\x80", "\xe4\xb8", "\xc3(", "\xff"})
    EXPECT_FALSE(first_code_point(bad)) << bad;
  EXPECT_EQ(valid_utf8_bytes("a\xc3\xa9\xff"), 3u);
  EXPECT_EQ(invalid_utf8_bytes("\xff\xfe"
                               "a"),
            2u);
}

}  // namespace
}  // namespace tessera::host
