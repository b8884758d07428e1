// The index of a checkpoint: what is printed reads back, and nothing that could mislead a reader is accepted. What a
// rank holds: which of it it saves, under which name, and what it gets of a checkpoint.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "checkpoint/index_text.h"
#include "checkpoint/load.h"
#include "checkpoint/write_part.h"
#include "storage/block_sums.h"
#include "support/expect_error.h"
#include "support/program_builder.h"
#include "support/temp_folder.h"
#include "weights/safetensors.h"

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
  for (const char* scale : {"\"loss_scale\":0", "\"loss_scale\":0.5"})
    expect_refused("\"loss_scale\":32768.0", scale, "is not a scale");
  expect_refused("\"optimizer_step\":9", "\"optimizer_step\":11", "does not fit optimizer_step");
  expect_refused("\"F32\"", "\"F32\",\"version\":1", "a strategy's own state may have one");
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

// ---- what ranks hold ----

class Held : public ::testing::Test {
 protected:
  /// A home of parameter 0, from `element` on, in a buffer of its own.
  void home(uint64_t element, uint64_t num_elements) {
    Home made{program_.next_id++, "home", 0, {{0, 0, element, num_elements, 0}}, num_elements, {}};
    made.roles[TSR_HOME_VALUE] = {persistent(program_, "home", num_elements), 0, num_elements};
    program_.homes.push_back(made);
  }
  void layout(int axis, uint32_t kind, std::vector<int> coordinates = {}) {
    LayoutEntry& entry = program_.layout.emplace_back();
    entry.parameter = 0;
    entry.axis = axis;
    entry.kind = kind;
    entry.coordinates = std::move(coordinates);
  }
  HeldTensor held_at(Coordinates coordinates) {
    program_.coordinates = std::move(coordinates);
    return held_tensors(program_).front();
  }

  const Model model_ = toy_model();
  const Mesh mesh_{{{"x", 2}, {"y", 3}}};
  Program program_ = empty_program(model_, mesh_);
};

TEST_F(Held, IsSavedByTheFirstRankThatHasIt) {
  home(0, 64);
  layout(1, TSR_LAYOUT_REPLICATED, {1, 2});
  EXPECT_FALSE(held_at({0, 0}).is_owner);
  EXPECT_TRUE(held_at({0, 1}).is_owner);
  EXPECT_FALSE(held_at({0, 2}).is_owner);
  EXPECT_FALSE(held_at({1, 1}).is_owner);
}

TEST_F(Held, HasANameInEachReplica) {
  home(0, 64);
  layout(0, TSR_LAYOUT_DIVERGENT);
  layout(1, TSR_LAYOUT_DIVERGENT);
  const std::string name = model_.parameters[0].name;
  EXPECT_EQ(held_at({0, 0}).name, name);
  EXPECT_EQ(held_at({0, 2}).name, "replica.2." + name);
  EXPECT_EQ(held_at({1, 0}).name, "replica.3." + name);
  EXPECT_EQ(held_at({1, 0}).num_replicas, 6);
}

TEST_F(Held, IsInTheOrderOfTheParameter) {
  home(32, 16);
  home(0, 32);
  const HeldTensor tensor = held_at({0, 0});
  ASSERT_EQ(tensor.ranges.size(), 1u);
  EXPECT_EQ(tensor.ranges[0], (ElementRange{0, 48}));
  ASSERT_EQ(tensor.places.size(), 2u);
  EXPECT_EQ(tensor.places[0].num_elements, 32u);
}

// ---- checkpoints of one rank ----

HeldTensor tensor_of(std::string name, int parameter, tsr_dtype dtype, uint64_t num_elements) {
  HeldTensor tensor;
  tensor.name = tensor.shared_name = std::move(name);
  tensor.parameter = parameter;
  tensor.dtype = dtype;
  tensor.is_owner = true;
  tensor.ranges = {{0, num_elements}};
  tensor.places = {{1, 0, num_elements}};
  return tensor;
}

class SavedByOneRank : public ::testing::Test {
 protected:
  /// Parameters have one dim; their elements are the position of their tensor in the list, those of others count.
  void save(const std::vector<HeldTensor>& tensors) {
    const std::vector<std::vector<uint64_t>> shapes{{tensors.front().num_elements()}};
    const auto read = [&](const HeldTensor& tensor, uint64_t begin, uint64_t end, std::span<std::byte> piece) {
      const auto position =
          static_cast<float>(std::ranges::find(tensors, tensor.name, &HeldTensor::name) - tensors.begin());
      for (uint64_t i = begin; i < end; ++i)
        if (tensor.dtype == TSR_I64)
          std::memcpy(piece.data() + (i - begin) * sizeof i, &i, sizeof i);
        else
          std::memcpy(piece.data() + (i - begin) * sizeof position, &position, sizeof position);
      return std::span<const std::byte>(piece);
    };
    const RankPart part = write_rank_part(folder_.path(), 0, tensors, shapes, read);
    index_.run.has_config = false;
    index_.files = {part.file.value()};
    index_.tensors = part.tensors;
    write_index();
  }
  void write_index() const { folder_.write(kIndexName, print_index(index_)); }
  void expect_not_held(const std::function<void(SavedTensor&)>& change) {
    const SavedTensor own = index_.tensors.at("w");
    change(index_.tensors.at("w"));
    write_index();
    expect_error([&] { Checkpoint(folder_.path()).open_files(); }, {"does not hold the ", " elements of w"});
    index_.tensors.at("w") = own;
  }

  const TempFolder folder_;
  CheckpointIndex index_ = small_index();
};

TEST_F(SavedByOneRank, ItsFileIsAsTheIndexSays) {
  save({tensor_of("w", 0, TSR_F32, 4)});
  Checkpoint(folder_.path()).open_files();
  expect_not_held([](SavedTensor& tensor) { tensor.dtype = "BF16"; });
  expect_not_held([](SavedTensor& tensor) { tensor.shape = {2}, tensor.parts[0].ranges = {{0, 2, 1, 0}}; });
  write_index();
  const Checkpoint checkpoint(folder_.path());
  std::vector<float> out(3);
  checkpoint.read("w", 1, out);
  expect_error([&] { checkpoint.read("w", 2, out); }, {"elements 2 to 5 of w were requested, and it has 4"});
}

TEST_F(SavedByOneRank, WhatItOwnsWholeHasItsShape) {
  const HeldTensor tensor = tensor_of("w", 0, TSR_F32, 6);
  const std::vector<std::vector<uint64_t>> whole{{2, 3}}, part{{4, 3}};
  const auto zeros = [](const HeldTensor&, uint64_t, uint64_t, std::span<std::byte> piece) {
    return std::span<const std::byte>(piece);
  };
  const auto shape = [&](const auto& shapes) {
    write_rank_part(folder_.path(), 0, std::span(&tensor, 1), shapes, zeros);
    return SafetensorsFile(folder_.path(rank_file_name(0))).tensor("w").shape;
  };
  EXPECT_EQ(shape(whole), (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(shape(part), std::vector<uint64_t>{6});
}

TEST_F(SavedByOneRank, ItsConfigIsAllHeader) {
  save({tensor_of("w", 0, TSR_F32, 4)});
  folder_.write("config.json", "{}\n");
  const std::string config = "{}\n";
  index_.files.push_back({"config.json", 3, 3, crc32c(std::as_bytes(std::span(config)))});
  write_index();
  EXPECT_EQ(Checkpoint(folder_.path()).config_path(), folder_.path("config.json"));
  index_.files.back().header_bytes = 2;
  index_.files.back().header_crc32c = crc32c(std::as_bytes(std::span(config).first(2)));
  write_index();
  expect_error([&] { Checkpoint(folder_.path()).config_path(); }, {"has no config.json that index.json names"});
}

TEST_F(SavedByOneRank, ReplicasGoOnWhereThereAreAsMany) {
  save({tensor_of("w", 0, TSR_F32, 4), tensor_of("replica.1.w", 0, TSR_F32, 4),
        tensor_of("replica.2.w", 0, TSR_F32, 4)});
  const Checkpoint checkpoint(folder_.path());
  const auto loaded = [&](int num_replicas, LoadWhat what) {
    HeldTensor own = tensor_of("replica.1.w", 0, TSR_F32, 4);
    own.shared_name = "w";
    own.num_replicas = num_replicas;
    std::vector<float> got;
    load_tensors(checkpoint, std::span(&own, 1), what,
                 {[](const StatePlace&) { return std::span<float>(); },
                  [&](const StatePlace&, std::span<const float> values) { got.assign(values.begin(), values.end()); }});
    return got.at(0);
  };
  EXPECT_EQ(loaded(3, LoadWhat::everything), 1);
  EXPECT_EQ(loaded(2, LoadWhat::everything), 0);
  EXPECT_EQ(loaded(4, LoadWhat::everything), 0);
  EXPECT_EQ(loaded(3, LoadWhat::parameters), 0);
}

// Longer than a piece that is read, and than a block that has a checksum.
TEST_F(SavedByOneRank, StateOfAStrategyIsReadInPieces) {
  const HeldTensor tensor = tensor_of(own_state_name(0, "dp.keeper.sum"), -1, TSR_I64, (1 << 18) + 5);
  save({tensor});
  std::vector<uint64_t> got(tensor.num_elements());
  load_own_state(Checkpoint(folder_.path()), std::span(&tensor, 1),
                 [&](const StatePlace& place, std::span<const std::byte> elements) {
                   ASSERT_EQ(elements.size(), place.num_elements * sizeof(uint64_t));
                   std::memcpy(got.data() + place.offset, elements.data(), elements.size());
                 });
  std::vector<uint64_t> counted(got.size());
  std::iota(counted.begin(), counted.end(), 0);
  EXPECT_TRUE(got == counted);
}

TEST_F(SavedByOneRank, StateOfAStrategyIsAllThereOrNot) {
  const HeldTensor first = tensor_of(own_state_name(0, "dp.keeper.a"), -1, TSR_I64, 4),
                   second = tensor_of(own_state_name(0, "dp.keeper.b"), -1, TSR_I64, 4);
  save({first, second});
  const Checkpoint checkpoint(folder_.path());
  const auto obstacle = [&](const std::vector<HeldTensor>& tensors) {
    return obstacle_to_own_state(checkpoint, tensors, 0, checkpoint.index().run);
  };
  EXPECT_EQ(obstacle({first, second}), "");
  EXPECT_EQ(obstacle({first}), "the checkpoint has state.0.dp.keeper.b that this run does not have");
  HeldTensor other = second;
  other.dtype = TSR_F64;
  EXPECT_NE(obstacle({first, other}).find("4 elements of I64 there and 4 of F64 here"), std::string::npos);
}

}  // namespace
}  // namespace tessera::testing
