// Data in several files: a folder of .bin files, or a pattern.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <numeric>

#include "data/file_list.h"
#include "data/token_source.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace tessera::testing {
using namespace host;
namespace {

namespace fs = std::filesystem;

constexpr uint16_t kTokensPerShard = 10;

std::vector<uint16_t> counted(uint16_t first) {
  std::vector<uint16_t> tokens(kTokensPerShard);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::string llmc(const std::vector<uint16_t>& tokens) {
  std::array<int32_t, 256> header{20240520, 1, static_cast<int32_t>(tokens.size())};
  return raw_bytes(header) + raw_bytes(tokens);
}

std::string raw(const std::vector<uint16_t>& tokens) {
  return raw_bytes(tokens);
}

// Shards train_0.bin, train_1.bin, ... whose tokens count on from 0.
void write_shards(const TempFolder& folder, int num_shards, std::string (*format)(const std::vector<uint16_t>&)) {
  for (int i = 0; i < num_shards; ++i)
    folder.write("train_" + std::to_string(i) + ".bin", format(counted(static_cast<uint16_t>(i * kTokensPerShard))));
}

void expect_counts(const TokenSource& source, uint64_t num_tokens) {
  ASSERT_EQ(source.num_tokens(), num_tokens);
  for (uint64_t begin = 0; begin < num_tokens; ++begin)
    for (uint64_t end = begin; end <= num_tokens; ++end) {
      std::vector<int32_t> out(end - begin), expected(end - begin);
      std::iota(expected.begin(), expected.end(), static_cast<int32_t>(begin));
      source.read(begin, out);
      ASSERT_EQ(out, expected) << begin << " to " << end;
    }
}

TEST(Shards, OfAFolderAreOneSequence) {
  for (auto* format : {llmc, raw}) {
    const TempFolder folder;
    write_shards(folder, 4, format);
    const auto source = open_tokens(folder.path(), 100);
    expect_counts(*source, 40);
    EXPECT_NE(source->description().find("4 shards"), std::string::npos) << source->description();
  }
}

TEST(Shards, OfAPatternAreOneSequence) {
  const TempFolder folder;
  write_shards(folder, 3, llmc);
  folder.write("val_0.bin", llmc(counted(77)));
  folder.write("notes.txt", "x");
  expect_counts(*open_tokens(folder.path("*train*.bin"), 100), 30);
  expect_counts(*open_tokens(folder.path("train_[01].bin"), 100), 20);
}

TEST(Shards, APatternMayNameTexts) {
  const TempFolder folder;
  folder.write("b.txt", "cd");
  folder.write("a.txt", "ab");
  const auto source = open_tokens(folder.path("?.txt"), 256);
  std::vector<int32_t> out(4);
  source->read(0, out);
  EXPECT_EQ(out, (std::vector<int32_t>{'a', 'b', 'c', 'd'}));
}

TEST(Shards, AFileWhoseNameLooksLikeAPatternIsThatFile) {
  const TempFolder folder;
  folder.write("a.txt", "wrong");
  EXPECT_EQ(open_tokens(folder.write("[a].txt", "right!"), 256)->num_tokens(), 6u);
}

TEST(Shards, NothingThatMatchesIsAnError) {
  const TempFolder folder;
  expect_error([&] { open_tokens(folder.path("*.bin"), 100); }, {"no file matches", folder.path("*.bin")});
  expect_error([&] { open_tokens(folder.path("absent/*.bin"), 100); }, {"no file matches", "absent/*.bin"});
}

TEST(Shards, BesideOtherFilesAreRefused) {
  const TempFolder folder;
  write_shards(folder, 1, llmc);
  folder.write("readme.md", "text");
  expect_error([&] { open_tokens(folder.path(), 100); },
               {folder.path(), "train_0.bin", "readme.md", "--data '" + folder.path() + "/*.bin'"});
}

TEST(Shards, ForValidationAreNotTrainedOn) {
  const TempFolder folder;
  write_shards(folder, 1, llmc);
  folder.write("val_0.bin", llmc(counted(50)));
  expect_error([&] { open_tokens(folder.path(), 100); },
               {"val_0.bin", "train_0.bin", "--data '" + folder.path() + "/*train*.bin'"});
}

// nanoGPT's folder: train.bin, val.bin, input.txt.
TEST(Shards, ForValidationBesideOtherFilesAreNotProposed) {
  const TempFolder folder;
  write_shards(folder, 1, llmc);
  folder.write("input.txt", "text");
  folder.write("val.bin", llmc(counted(50)));
  expect_error([&] { open_tokens(folder.path(), 100); },
               {"input.txt", "--data '" + folder.path() + "/*train*.bin', or a folder"});
}

TEST(Shards, OneThatLooksLikeTextIsDoubted) {
  const TempFolder folder;
  const std::string text = folder.write("train_0.bin", std::string(1000, 'x'));
  folder.write("train_1.bin", raw(counted(0)));
  const std::string doubt = open_tokens(folder.path(), 65536)->doubt();
  EXPECT_NE(doubt.find(text + " looks like text"), std::string::npos) << doubt;
}

TEST(Shards, OfAPatternForTrainingAndEvaluationAreDoubted) {
  const TempFolder folder;
  write_shards(folder, 2, llmc);
  EXPECT_EQ(open_tokens(folder.path("*.bin"), 100)->doubt(), "");
  const std::string test = folder.write("test_0.bin", llmc(counted(50)));
  const std::string doubt = open_tokens(folder.path("*.bin"), 100)->doubt();
  for (const std::string& part : {folder.path("*.bin") + " matches test_0.bin", std::string("beside train_0.bin"),
                                  "such as '" + folder.path("*train*.bin") + "'"})
    EXPECT_NE(doubt.find(part), std::string::npos) << doubt;
  EXPECT_EQ(open_tokens(folder.path("*train*.bin"), 100)->doubt(), "");
  EXPECT_EQ(open_tokens(test, 100)->doubt(), "");
}

TEST(Shards, OneThatIsCutMissingOrForeignIsNamed) {
  const TempFolder folder;
  write_shards(folder, 3, llmc);
  const std::string second = folder.path("train_1.bin");
  fs::resize_file(second, 1030);
  expect_error([&] { open_tokens(folder.path(), 100); }, {second, "1030 bytes", "cut"});
  folder.write("train_1.bin", raw(counted(0)));
  expect_error([&] { open_tokens(folder.path(), 100); }, {second, "raw uint16", "llm.c", "shards of one format"});
  fs::remove(second);
  fs::create_symlink("/nonexistent/blob", second);
  for (const std::string& data : {folder.path(), folder.path("*.bin")})
    expect_error([&] { open_tokens(data, 100); }, {second, "/nonexistent/blob", "No such file"});
}

TEST(Shards, OneThatIsEmptyIsNamed) {
  for (const char* name : {"train_0.bin", "train_2.bin"}) {
    const TempFolder folder;
    write_shards(folder, 3, llmc);
    folder.write(name, llmc({}));
    for (const std::string& data : {folder.path(), folder.path("*.bin")})
      expect_error([&] { open_tokens(data, 100); }, {folder.path(name), "holds no token (1024 bytes)", "remove it"});
  }
  const TempFolder folder;
  write_shards(folder, 2, raw);
  const std::string empty = folder.write("train_1.bin", "");
  expect_error([&] { open_tokens(folder.path(), 100); }, {empty, "holds no token (0 bytes)"});
}

TEST(Shards, APatternThatAFolderMatchesIsRefused) {
  const TempFolder folder;
  write_shards(folder, 1, raw);
  folder.write("val.bin/0.bin", raw(counted(0)));
  const std::string pattern = folder.path("*.bin");
  expect_error([&] { open_tokens(pattern, 100); },
               {"the pattern " + pattern + " matches the folder " + folder.path("val.bin")});
}

TEST(Shards, APatternIsKnownToMatchFilesThatAreNotThereYet) {
  const TempFolder folder;
  folder.write("data/a.bin", "");
  const auto matches = [&](const std::string& pattern, const std::string& path) {
    return would_match(folder.path(pattern), folder.path(path));
  };
  EXPECT_TRUE(matches("data/*.bin", "data/b.bin"));
  EXPECT_TRUE(matches("d*a/*", "data/../data/b.jsonl"));
  EXPECT_FALSE(matches("data/*.bin", "data/b.jsonl"));
  EXPECT_FALSE(matches("data/*", "data/.hidden"));
  EXPECT_FALSE(matches("data/*.bin", "b.bin"));
  EXPECT_FALSE(matches("*.bin", "data/b.bin"));
  const auto here = fs::current_path();
  fs::current_path(folder.path("data"));
  EXPECT_TRUE(would_match("*.bin", folder.path("data/b.bin")));
  EXPECT_TRUE(would_match(folder.path("data/*.bin"), "b.bin"));
  fs::current_path(here);
}

TEST(Shards, OneThatChangesDuringTheRunIsNamed) {
  const TempFolder folder;
  write_shards(folder, 3, llmc);
  const auto source = open_tokens(folder.path(), 100);
  std::vector<int32_t> out(10);
  folder.write("train_1.bin", llmc({1, 2, 3}));
  expect_error([&] { source->read(5, out); }, {"train_1.bin", "3 tokens", "had 10"});
  fs::remove(folder.path("train_2.bin"));
  expect_error([&] { source->read(20, out); }, {"train_2.bin", "No such file"});
}

TEST(Shards, ATokenBeyondTheVocabularyIsNamedByItsFile) {
  const TempFolder folder;
  write_shards(folder, 3, raw);
  expect_error([&] { open_tokens(folder.path(), 25); }, {"train_2.bin", "token 25 at position 5"});
}

TEST(Shards, AreNotAllOpenAtOnce) {
  const TempFolder folder;
  const auto num_open = [] {
    const fs::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  write_shards(folder, 20, llmc);
  const auto before = num_open();
  const auto source = open_tokens(folder.path(), 1000);
  std::vector<int32_t> out(200);
  source->read(0, out);
  EXPECT_LE(num_open(), before + 1);
}

}  // namespace
}  // namespace tessera::testing
