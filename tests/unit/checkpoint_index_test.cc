// The index of a checkpoint: what is printed reads back, and nothing that could mislead a reader is accepted.
#include <gtest/gtest.h>

#include <random>

#include "checkpoint/index_text.h"
#include "storage/block_sums.h"
#include "support/expect_error.h"

namespace tessera::testing {
namespace {

using namespace host;

CheckpointIndex small_index() {
  CheckpointIndex index;
  index.state = {10, 9, 640, 320, 32768, 7};
  index.run = {"0.1",
               "char",
               true,
               {{"layers of the model", "2"}},
               "tokens",
               {{"lr", "0.1"}},
               {"tokens", "99"},
               "",
               {{"dp", 2}},
               {{"dp", "ddp"}},
               {{"org.tessera.ddp", "0.1"}}};
  index.files = {{"rank-00000.safetensors", 200, 80, 1}, {"rank-00001.safetensors", 100, 60, 2}};
  // Rows of 8, whose columns 0 to 3 and 4 to 7 are in different files.
  index.tensors["w"] = {"F32", {3, 8}, {{0, {{0, 4, 3, 8}}, {11}}, {1, {{4, 4, 3, 8}}, {12}}}};
  return index;
}

/// The text with one change, and the checksum that belongs to it.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = print_index(small_index());
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  text.replace(at, from.size(), to);
  const std::string rest = text.substr(text.find('\n') + 1);
  char sum[9];
  std::snprintf(sum, sizeof sum, "%08x", crc32c(std::as_bytes(std::span(rest))));
  return text.replace(text.find(": \"") + 3, 8, sum);
}

void expect_refused(const std::string& from, const std::string& to, const std::string& sentence) {
  expect_error([&] { parse_index(changed(from, to), "i.json"); }, {sentence});
}

TEST(CheckpointIndex, ReadsBackAsItWas) {
  const std::string text = print_index(small_index());
  const CheckpointIndex index = parse_index(text, "i.json");
  EXPECT_EQ(print_index(index), text);
  EXPECT_EQ(index.state.data_position, 320u);
  EXPECT_EQ(index.run.strategies, (NamedValues{{"dp", "ddp"}}));
  EXPECT_EQ(index.tensors.at("w").parts[1].ranges[0], (StridedRange{4, 4, 3, 8}));
  EXPECT_EQ(index.total_bytes(), 300u);
}

TEST(CheckpointIndex, SaysWhatTheDataWas) {
  CheckpointIndex index = small_index();
  EXPECT_EQ(parse_index(print_index(index), "i.json").run.data_fingerprint, "") << "as older checkpoints";
  index.run.data_fingerprint = "99 tokens, sha256 0123456789abcdef";
  EXPECT_EQ(parse_index(print_index(index), "i.json").run.data_fingerprint, index.run.data_fingerprint);
}

TEST(CheckpointIndex, TheBestIsThereIfThereIsOne) {
  EXPECT_EQ(print_index(small_index()).find("\"best\""), std::string::npos);
  CheckpointIndex index = small_index();
  index.state.best_step = 8;
  index.state.best_loss = 0.1 + 0.2;
  const RunState read = parse_index(print_index(index), "i.json").state;
  EXPECT_EQ(read.best_step, 8);
  EXPECT_EQ(read.best_loss, 0.1 + 0.2);
  EXPECT_EQ(read.best_of, "") << "as older checkpoints";
  index.state.best_of = "the first 99 predictions of 100 tokens, sha256 0123456789abcdef";
  EXPECT_EQ(parse_index(print_index(index), "i.json").state.best_of, index.state.best_of);
  expect_refused("\"updates_at_scale\":7", "\"updates_at_scale\":7,\"best\":{\"step\":11,\"loss\":1}",
                 "\"step\" is not one of the steps done");
  expect_refused("\"updates_at_scale\":7", "\"updates_at_scale\":7,\"best\":{\"step\":1}", "\"loss\" is missing");
}

TEST(CheckpointIndex, StateOfAStrategyMayBeRequired) {
  CheckpointIndex index = small_index();
  const std::string name = own_state_name(0, "dp.keeper.sums");
  index.tensors[name] = {"F32", {4}, {{0, {{0, 4, 1, 0}}, {12}}}};
  EXPECT_FALSE(parse_index(print_index(index), "i.json").tensors.at(name).is_required) << "as older checkpoints";
  index.tensors[name].is_required = true;
  EXPECT_TRUE(parse_index(print_index(index), "i.json").tensors.at(name).is_required);
  expect_refused("\"dtype\":\"F32\",", "\"dtype\":\"F32\",\"required\":true,", "only a strategy's own state");
}

TEST(CheckpointIndex, AnyByteThatChangedIsSeen) {
  const std::string text = print_index(small_index());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string broken = text;
    broken[i] = static_cast<char>(broken[i] ^ 1);
    EXPECT_THROW(parse_index(broken, "i.json"), Error) << i;
  }
  for (size_t length = 0; length < text.size(); ++length)
    EXPECT_THROW(parse_index(text.substr(0, length), "i.json"), Error) << length;
}

TEST(CheckpointIndex, LinesAreCountedAsTheFileHasThem) {
  expect_refused("\"version\":1", "\"version\":", "parse error at line 2, ");
}

TEST(CheckpointIndex, ANewerVersionIsRefused) {
  expect_error([] { parse_index(changed("\"version\":1", "\"version\":2"), "i.json"); },
               {"i.json has version 2 of the format, and this tessera reads up to 1"});
}

TEST(CheckpointIndex, FilesAreInItsFolder) {
  for (const char* name : {"../x", "/etc/passwd", ".", "..", "", "a\\u0000b"})
    expect_refused("rank-00001.safetensors", name, "not the name of a file in the checkpoint's folder");
}

TEST(CheckpointIndex, EveryElementIsThereOnce) {
  const char* const kOnce = "do not hold each of the tensor's 24 elements once";
  expect_refused("[4,4,3,8]", "[0,4,3,8]", kOnce);  // columns 0 to 3 twice
  expect_refused("[4,4,3,8]", "[4,4,3,0]", kOnce);
  expect_refused("[4,4,3,8]", "[4,4,3,18446744073709551615]", kOnce);
  expect_refused("[4,4,3,8]", "[5,4,3,8]", kOnce);
  expect_refused("[4,4,3,8]", "[4,12,1,0]", kOnce);
  expect_refused("[4,4,3,8]", "[4,2,2,8]", kOnce);
  expect_refused("[4,4,3,8]", "[4,0,3,8]", "holds 1 checksums for 0 elements");
  expect_refused("[4,4,3,8]", "[4,4,9223372036854775808,8]", "holds more elements than the tensor");
  expect_refused("[4,4,3,8]", "[4,4,3]", "holds a list of 3 numbers");
}

TEST(CheckpointIndex, NumbersFit) {
  expect_refused("[3,8]", "[4294967296,4294967296]", "is too large");
  expect_refused("[3,8]", "[3,-8]", "whole numbers");
  expect_refused("\"crc32c\":[12]", "\"crc32c\":[4294967296]", "more than 32 bits");
  expect_refused("\"crc32c\":[12]", "\"crc32c\":[]", "holds 0 checksums for 12 elements of F32");
  expect_refused("\"file\":1", "\"file\":2", "not below 2, the number of files");
  expect_refused("\"F32\"", "\"I32\"", "which no parameter has");
  expect_refused("\"step\":10", "\"step\":-1", "whole number");
  expect_refused("\"loss_scale\":32768.0", "\"loss_scale\":0", "is not a scale");
  expect_refused("\"bytes\":200", "\"bytes\":201", "is not the sum of the files");
  expect_refused("\"header_bytes\":80", "\"header_bytes\":201", "more than the file or any header has");
}

TEST(CheckpointIndex, KeysAreKnownAndThere) {
  expect_refused("\"tokens\":640", "\"bytes\":640", "\"bytes\" is not a key of version 1");
  expect_refused("\"dtype\":\"F32\",", "", "\"dtype\" is missing");
  expect_refused("\"ranks\":2", "\"ranks\":0", "is not a number of ranks");
  expect_refused("tessera-checkpoint", "other", "is not tessera-checkpoint");
}

TEST(StridedRange, ColumnsAreOneEntry) {
  const std::vector<ElementRange> columns = {{4, 8}, {12, 16}, {20, 24}};
  EXPECT_EQ(strided(columns), (std::vector<StridedRange>{{4, 4, 3, 8}}));
}

TEST(StridedRange, RangesThatTouchAreOne) {
  const std::vector<ElementRange> ranges = {{0, 4}, {4, 8}, {9, 10}, {20, 20}, {30, 31}};
  EXPECT_EQ(strided(ranges), (std::vector<StridedRange>{{0, 8, 1, 0}, {9, 1, 2, 21}}));
}

TEST(StridedRange, EveryElementIsFound) {
  const std::vector<ElementRange> ranges = {{1, 3}, {5, 7}, {9, 11}, {20, 29}, {40, 41}};
  const std::vector<StridedRange> entries = strided(ranges);
  uint64_t position = 0;
  for (const ElementRange& range : ranges)
    for (uint64_t i = range.begin; i < range.end; ++i, ++position) {
      const ElementPlace place = find_element(entries, i);
      EXPECT_EQ(place.position, position);
      EXPECT_EQ(place.num_elements, range.end - i);
    }
  for (const uint64_t i : {0, 3, 4, 8, 11, 19, 29, 41, 1000})
    EXPECT_EQ(find_element(entries, i).num_elements, 0u) << i;
}

/// A few bytes of an index say millions of ranges, and an index has many tensors.
TEST(StridedRange, AreLookedAtOneByOneOnlyWhereTheyDoNotJoin) {
  constexpr uint64_t kCount = uint64_t{1} << 40;
  const std::vector<StridedRange> rows = {{0, 1, kCount, 1}};
  const std::vector<StridedRange> columns = {{4, 4, kCount, 8}, {1, 3, kCount, 8}, {0, 1, kCount, 8}};
  uint64_t left = 3;
  EXPECT_TRUE(cover_once(rows, kCount, left));
  EXPECT_TRUE(cover_once(columns, 8 * kCount, left));
  EXPECT_EQ(left, 1u);
  const std::vector<StridedRange> apart = {{0, 1, 3, 2}, {1, 1, 2, 2}};  // 0 2 4, 1 3
  left = 4;
  EXPECT_FALSE(cover_once(apart, 5, left));
  left = 5;
  EXPECT_TRUE(cover_once(apart, 5, left));
  EXPECT_EQ(left, 0u);
}

/// Against a count of every element.
TEST(StridedRange, CoverOnceWhatACountSaysTheyDo) {
  std::mt19937_64 random(1);
  int num_covers = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<StridedRange> entries;
    const uint64_t num_elements = 1 + random() % 24;
    for (uint64_t held = 0; held < num_elements && entries.size() < 5;) {
      StridedRange range = {random() % num_elements, 1 + random() % 4, 1 + random() % 4, 0};
      if (range.count > 1) range.stride = 1 + random() % 8;
      entries.push_back(range);
      held += range.total_elements();
    }
    std::vector<int> times(100);
    bool fits = true;
    for (const StridedRange& range : entries)
      for (uint64_t k = 0; k < range.total_elements(); ++k) {
        const uint64_t at = range.offset + k / range.num_elements * range.stride + k % range.num_elements;
        fits = fits && at < num_elements && ++times[at] == 1;
      }
    for (uint64_t at = 0; at < num_elements; ++at)
      fits = fits && times[at] == 1;
    uint64_t left = 1000;
    EXPECT_EQ(cover_once(entries, num_elements, left), fits) << i;
    num_covers += fits;
  }
  EXPECT_GT(num_covers, 100);
}

}  // namespace
}  // namespace tessera::testing
