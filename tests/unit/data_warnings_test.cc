// Warnings about data that may not be what the user means.
#include "data/data_warnings.h"

#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr int64_t kPlenty = 1000;

std::vector<std::string> warnings_of(const std::string& path, const DataUse& use) {
  return data_warnings(*open_tokens(path, use.vocab), use);
}

void expect_one(const std::vector<std::string>& warnings, const std::vector<std::string>& parts) {
  ASSERT_EQ(warnings.size(), 1u);
  for (const std::string& part : parts)
    EXPECT_NE(warnings[0].find(part), std::string::npos) << warnings[0];
}

TEST(DataWarnings, NoneForDataThatFitsItsModel) {
  const TempFolder folder;
  const std::string text = folder.write("a.txt", std::string(kPlenty, 'a'));
  EXPECT_TRUE(warnings_of(text, {256, 32, 1, 100}).empty());
  EXPECT_TRUE(warnings_of(text, {260, 32, 1, 100}).empty()) << "bytes and a few special tokens";
  const std::string tokens = folder.write("t.bin", std::string(kPlenty, '\1'));
  EXPECT_TRUE(warnings_of(tokens, {50257, 32, 1, 100}).empty());
}

TEST(DataWarnings, BytesForAModelWithWords) {
  const TempFolder folder;
  expect_one(warnings_of(folder.write("a.txt", std::string(kPlenty, 'a')), {50257, 32, 1, 100}),
             {"256 of the 50257", "tokenizer", "docs/data.md"});
}

TEST(DataWarnings, TextThatIsReadAsTokens) {
  const TempFolder folder;
  expect_one(warnings_of(folder.write("a.bin", std::string(kPlenty, 'a')), {50257, 32, 1, 100}),
             {"a.bin looks like text", "rename it to .txt"});
}

TEST(DataWarnings, SoLittleDataThatEveryStepSeesTheSame) {
  const TempFolder folder;
  const std::string data = folder.write("a.txt", std::string(65, 'a'));
  expect_one(warnings_of(data, {256, 64, 1, 100}), {"same 64 of its 65 tokens", "the run 100 times"});
  expect_one(warnings_of(data, {256, 32, 2, 100}), {"same 64 of its 65 tokens", "the run 100 times"});
  expect_one(warnings_of(data, {256, 32, 6, 100}), {"same 64 of its 65 tokens, 3 times", "the run 300 times"});
  EXPECT_TRUE(warnings_of(data, {256, 32, 1, 100}).empty()) << "two steps see different tokens";
  EXPECT_TRUE(warnings_of(data, {256, 64, 1, 1}).empty()) << "one step repeats nothing";
}

}  // namespace
}  // namespace tessera::testing
