#include "data/token_source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <vector>

#include "data/file_list.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temp_folder.h"

namespace tessera::host {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::raw_bytes;
using testing::TempFolder;

std::vector<int32_t> all_tokens(const TokenSource& source) {
  std::vector<int32_t> tokens(source.num_tokens());
  source.read(0, tokens);
  return tokens;
}

std::string text_of(const TokenSource& source) {
  std::string text;
  for (const int32_t token : all_tokens(source))
    text += static_cast<char>(token);
  return text;
}

std::string llmc_file(const std::vector<uint16_t>& tokens, int32_t num_tokens, int32_t version = 1,
                      int32_t magic = 20240520) {
  std::array<int32_t, 256> header{magic, version, num_tokens};
  return raw_bytes(header) + raw_bytes(tokens);
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(TokenSource, TextFile) {
  const TempFolder folder;
  const auto source = open_tokens(folder.write("corpus.txt", "To be\n\xc3\xa4"), 50257);
  EXPECT_EQ(all_tokens(*source), (std::vector<int32_t>{'T', 'o', ' ', 'b', 'e', '\n', 0xc3, 0xa4}));
  expect_part(source->description(), "corpus.txt: text, bytes are the tokens (8 tokens)");
}

TEST(TokenSource, TextInUtf16IsRefused) {
  using namespace std::string_literals;
  const TempFolder folder;
  for (const std::string& text : {"\xff\xfeT\0o\0"s, "\xfe\xff\0T\0o"s})
    expect_error([&] { open_tokens(folder.write("corpus.txt", text), 50257); },
                 {"corpus.txt is text in UTF-16; save it as UTF-8"});
  EXPECT_EQ(all_tokens(*open_tokens(folder.write("tokens.bin", "\xfe\xff\1\0"s), 65536))[0], 65534);
}

TEST(TokenSource, CompressedTextIsRefusedByItsFormat) {
  const TempFolder folder;
  const std::pair<const char*, std::string> kFormats[] = {{"gzip", "\x1f\x8b\b"},
                                                          {"zstd", "\x28\xb5\x2f\xfd"},
                                                          {"xz",
                                                           "\xfd"
                                                           "7zXZ"},
                                                          {"bzip2", "BZh91AY&SY"}};
  for (const auto& format : kFormats)
    expect_error([&] { open_tokens(folder.write("text", format.second + std::string(40, 'x')), 256); },
                 {std::string("text is compressed with ") + format.first});
}

TEST(TokenSource, LlmcFile) {
  const TempFolder folder;
  const std::vector<uint16_t> tokens = {0, 1, 50256, 7};
  for (const char* name : {"train.bin", "train.tokens"}) {
    const auto source = open_tokens(folder.write(name, llmc_file(tokens, 4)), 50257);
    EXPECT_EQ(all_tokens(*source), (std::vector<int32_t>{0, 1, 50256, 7}));
    expect_part(source->description(), "llm.c");
  }
}

TEST(TokenSource, LlmcFileMustBeWhole) {
  const TempFolder folder;
  const std::string whole = llmc_file({1, 2, 3, 4}, 4);
  const std::string path = folder.write("t.bin", whole);
  for (std::size_t num_bytes = whole.size() - 1; num_bytes >= 12; --num_bytes) {
    fs::resize_file(path, num_bytes);
    expect_error([&] { open_tokens(path, 10); }, {"t.bin", std::to_string(num_bytes) + " bytes", "needs 1032"});
  }
  expect_error([&] { open_tokens(folder.write("t.bin", whole + "xx"), 10); },
               {"1034 bytes", "4 tokens", "needs 1032; it continues beyond its tokens"});
  expect_error([&] { open_tokens(folder.write("t.bin", llmc_file({1}, -1)), 10); }, {"t.bin", "4294967295 tokens"});
  expect_error([&] { open_tokens(folder.write("t.bin", llmc_file({1}, 1, 2)), 10); }, {"t.bin", "version 2"});
  expect_error([&] { open_tokens(folder.write("t.bin", llmc_file({1}, 1, 7, 20240801)), 10); }, {"t.bin", "uint32"});
}

TEST(TokenSource, RawUint16) {
  const TempFolder folder;
  const std::vector<uint16_t> tokens = {65535, 'a' | 'b' << 8, 0};
  const auto source = open_tokens(folder.write("train.bin", raw_bytes(tokens)), 65536);
  EXPECT_EQ(all_tokens(*source), (std::vector<int32_t>{65535, 'a' | 'b' << 8, 0}));
  expect_part(source->description(), "train.bin: raw uint16 tokens");
  expect_part(open_tokens(folder.write("text.bin", "abcd"), 50257)->description(), "raw uint16");
  expect_part(open_tokens(folder.write("data", std::string("ab\0c", 4)), 50257)->description(), "raw uint16");
  expect_error([&] { open_tokens(folder.write("train.bin", "abc"), 50257); }, {"train.bin", "3 bytes", "odd"});
}

TEST(TokenSource, TokensBeyondTheVocabularyAreNamed) {
  const TempFolder folder;
  std::vector<uint16_t> tokens(3'000'000, 95);
  const std::string path = folder.write("big.bin", raw_bytes(tokens));
  EXPECT_NO_THROW(open_tokens(path, 96));
  tokens[2'500'001] = 96;
  tokens[2'500'002] = 97;
  folder.write("big.bin", raw_bytes(tokens));
  expect_error([&] { open_tokens(path, 96); }, {"big.bin", "token 96 at position 2500001", "96 tokens"});
  folder.write("big.bin", llmc_file(tokens, 3'000'000));
  expect_error([&] { open_tokens(path, 96); }, {"token 96 at position 2500001"});
  expect_error([&] { open_tokens(folder.write("a.txt", "abz"), 'z'); }, {"a.txt", "token 122 at position 2"});
  folder.write("texts/a", "aa");
  folder.write("texts/b", "az");
  expect_error([&] { open_tokens(folder.path("texts"), 'z'); }, {"texts", "token 122 at position 3"});
  const std::vector<uint16_t> largest = {65535};
  expect_error([&] { open_tokens(folder.write("l.bin", raw_bytes(largest)), 65535); }, {"token 65535 at position 0"});
}

// Large data is not read before it is used.
TEST(TokenSource, TokensOfLargeDataAreCheckedWhereTheyAreRead) {
  const TempFolder folder;
  const std::vector<uint16_t> start = {1, 2, 96};
  const std::string path = folder.write("large.bin", raw_bytes(start));
  fs::resize_file(path, uint64_t{64} << 30);
  const auto source = open_tokens(path, 96);
  EXPECT_EQ(source->num_tokens(), uint64_t{32} << 30);
  std::vector<int32_t> out(2);
  EXPECT_NO_THROW(source->read(0, out));
  EXPECT_NO_THROW(source->read(uint64_t{31} << 30, out));
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp((int64_t{40} << 30) + 2) << raw_bytes(start);
  file.close();
  EXPECT_NO_THROW(source->read(uint64_t{20} << 30, out));
  EXPECT_EQ(out, (std::vector<int32_t>{0, 1}));  // 40 GiB from the start
  expect_error([&] { source->read(1, out); }, {"large.bin", "token 96 at position 2", "96 tokens"});
}

TEST(TokenSource, TextReadAsTokensIsDoubted) {
  const TempFolder folder;
  const std::string text = "To be, or not to be: \xc3\xa4.\n";
  EXPECT_EQ(open_tokens(folder.write("a.txt", text), 256)->doubt(), "");
  const std::string named = folder.write("text.bin", text + text);
  expect_part(open_tokens(named, 65536)->doubt(), "text.bin looks like text");
  expect_part(open_tokens(named, 65536)->doubt(), "rename it to .txt");
  expect_error([&] { open_tokens(named, 96); }, {"token 28500 at position 0", "looks like text", "rename it to .txt"});
  const std::string with_zero = folder.write("nul.txt", "To be" + std::string(1, '\0') + "or not");
  expect_error([&] { open_tokens(with_zero, 96); }, {"nul.txt looks like text", "zero byte at position 5"});
  expect_error([&] { open_tokens(folder.write("odd.bin", "abc"), 96); }, {"3 bytes", "odd", "rename it to .txt"});
}

TEST(TokenSource, TokensAreNotDoubted) {
  const TempFolder folder;
  std::vector<uint16_t> bytes, words, pixels;
  for (int i = 0; i < 3000; ++i) {
    bytes.push_back(static_cast<uint16_t>('a' + i % 26));  // a vocabulary of bytes, in 16 bits
    words.push_back(static_cast<uint16_t>(i * 7919 % 50257));
    pixels.push_back(static_cast<uint16_t>(i * 31 % 1000));
  }
  for (const auto& tokens : {bytes, words, pixels})
    EXPECT_EQ(open_tokens(folder.write("t.bin", raw_bytes(tokens)), 50257)->doubt(), "");
  EXPECT_EQ(open_tokens(folder.write("empty.bin", ""), 50257)->doubt(), "");
}

TEST(ContentHash, IsOfTheTokensNotOfTheFile) {
  const TempFolder folder;
  const std::vector<uint16_t> tokens = {'a', 'b', 'c'};
  const auto hash = [&](const std::string& path) { return content_hash(*open_tokens(path, 65536)); };
  const std::string text = hash(folder.write("a.txt", "abc"));
  EXPECT_EQ(text.size(), 64u);
  EXPECT_EQ(text, hash(folder.write("t.bin", raw_bytes(tokens))));
  EXPECT_EQ(text, hash(folder.write("l.bin", llmc_file(tokens, 3))));
  EXPECT_NE(text, hash(folder.write("b.txt", "abd")));
}

TEST(ContentHash, OfLargeDataTakesBothEndsAndBlocks) {
  const TempFolder folder;
  const uint64_t num_tokens = uint64_t{1} << 30;
  const auto hash_with = [&](uint64_t at) {
    const std::string path = folder.write("t.bin", "");
    fs::resize_file(path, 2 * num_tokens);
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
        .seekp(static_cast<std::streamoff>(2 * at))
        .put(1);
    return content_hash(*open_tokens(path, 65536));
  };
  const std::string at_no_block = hash_with(1'000'000);
  EXPECT_EQ(at_no_block, hash_with(1'000'001));
  EXPECT_NE(at_no_block, hash_with(0));
  EXPECT_NE(at_no_block, hash_with(num_tokens - 1));
  EXPECT_NE(at_no_block, hash_with((num_tokens - 32768) / 255 * 100));
}

TEST(TokenSource, TheLastByteNeedsAVocabularyOf256) {
  const TempFolder folder;
  const std::string path = folder.write("a.txt", "ab\xff");
  EXPECT_EQ(all_tokens(*open_tokens(path, 256)).back(), 255);
  expect_error([&] { open_tokens(path, 255); }, {"token 255 at position 2 is not in the model's vocabulary of 255"});
}

TEST(TokenSource, RangesAreChecked) {
  const TempFolder folder;
  const std::vector<uint16_t> tokens = {0, 1, 2, 3, 4};
  folder.write("folder/a.txt", "01234");
  for (const std::string& path : {folder.write("t.bin", raw_bytes(tokens)), folder.path("folder")}) {
    const auto source = open_tokens(path, 256);
    std::vector<int32_t> out(2);
    source->read(3, out);
    EXPECT_EQ(out[1] - out[0], 1);
    expect_error([&] { source->read(4, out); }, {path, "tokens 4 to 6"});
    expect_error([&] { source->read(~uint64_t{0}, out); }, {path});
  }
}

TEST(TokenSource, AFileCutWhileOpenIsAnError) {
  const TempFolder folder;
  const std::string path = folder.write("a.txt", "0123456789");
  const auto source = open_tokens(path, 256);
  fs::resize_file(path, 5);
  std::vector<int32_t> out(8);
  expect_error([&] { source->read(0, out); }, {"a.txt", "cut"});
}

TEST(TextFolder, IsItsTextFilesInOrderOfTheirPaths) {
  const TempFolder folder;
  folder.write("b.txt", "<b>");
  folder.write("a/z.cc", "<a/z>");
  folder.write("a/b/c.h", "<a/b/c>");
  folder.write("a.txt", "<a>");
  folder.write("empty", "");
  folder.write(".git/config", "hidden");
  folder.write("a/.hidden", "hidden");
  folder.write("image.png", std::string("\x89PNG\0", 5));
  folder.write("late.txt", std::string(9000, 'x') + '\0' + "y");  // the zero byte is beyond the start
  fs::create_directory_symlink(folder.path("a"), folder.path("loop"));
  fs::create_symlink("nowhere", folder.path("dangling"));
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  const auto source = open_tokens(folder.path(), 256);
  EXPECT_EQ(text_of(*source), "<a><a/b/c><a/z><b>" + std::string(9000, 'x') + '\0' + "y");
  expect_part(source->description(), "6 text files");
  expect_part(source->description(), "1 binary file skipped; " + folder.path("dangling") + " and others left out");
}

TEST(TextFolder, DoesNotChangeWithItsFiles) {
  const TempFolder folder;
  const std::string path = folder.write("t/a.txt", "before");
  const auto source = open_tokens(folder.path("t"), 256);
  fs::remove(path);
  EXPECT_EQ(text_of(*source), "before");
}

TEST(TextFolder, LinksToFilesAreFollowed) {
  const TempFolder folder;
  const std::string target = folder.write("elsewhere.txt", "linked");
  fs::create_directory(folder.path("t"));
  fs::create_symlink(target, folder.path("t/link.txt"));
  EXPECT_EQ(text_of(*open_tokens(folder.path("t"), 256)), "linked");
}

TEST(TextFolder, AFolderThatCannotBeListedIsNamed) {
  const TempFolder folder;
  folder.write("a.txt", "text");
  // Longer than a path may be: made from inside, met when it is listed.
  const std::string name(200, 'x');
  const fs::path start = fs::current_path();
  fs::current_path(folder.path());
  for (int depth = 0; depth < 25; ++depth) {
    fs::create_directory(name);
    fs::current_path(name);
  }
  fs::current_path(start);
  expect_error([&] { open_tokens(folder.path(), 256); }, {"cannot list the folder " + folder.path(), "xxx"});
}

TEST(TextFolder, WithoutTextIsAnError) {
  const TempFolder folder;
  expect_error([&] { open_tokens(folder.path(), 256); }, {folder.path(), "no text file"});
  folder.write("image.png", std::string(16, '\0'));
  expect_error([&] { open_tokens(folder.path(), 256); }, {folder.path(), "no text file", "1 binary"});
}

TEST(TokenSource, WhatIsNoFileOrFolderIsAnError) {
  const TempFolder folder;
  expect_error([&] { open_tokens(folder.path("absent"), 256); }, {"absent", "No such file"});
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  expect_error([&] { open_tokens(folder.path("pipe"), 256); }, {"pipe", "is a pipe, not a regular file"});
  expect_error([] { open_tokens("/dev/zero", 256); }, {"/dev/zero is a device, not a regular file"});
}

TEST(TokenSource, GoldenTokens) {
  const auto source = open_tokens(testing::source_dir("tests/golden/gpt2-nano/tokens.bin"), 96);
  EXPECT_EQ(source->num_tokens(), 5000u);
  expect_part(source->description(), "llm.c");
  expect_error([] { open_tokens(testing::source_dir("tests/golden/gpt2-nano/tokens.bin"), 95); }, {"token 95"});
}

TEST(TokenSource, NamesTheFolderThatAPatternCannotList) {
  const TempFolder folder;
  fs::create_symlink("circle", folder.path("circle"));
  const std::string pattern = folder.path("circle/*.bin");
  expect_error([&] { paths_matching(pattern); }, {"cannot list the folder " + folder.path("circle"), "for " + pattern});
}

}  // namespace
}  // namespace tessera::host
