#include "data/examples/example_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "config/usage_error.h"
#include "data/examples/example_warnings.h"
#include "support/expect_error.h"
#include "support/gzip.h"
#include "support/idx_bytes.h"
#include "support/paths.h"
#include "support/temp_folder.h"

namespace tessera::host {
namespace {

using testing::expect_error;
using testing::gzip;
using testing::idx_bytes;
using testing::TempFolder;

const ExampleOptions kOptions{{2, 3}, std::nullopt, std::nullopt};

ExampleOptions scaled(DataScale scale) {
  ExampleOptions options = kOptions;
  options.scale = scale;
  return options;
}

struct All {
  std::vector<float> features;
  std::vector<int32_t> labels;
};

All all_of(const ExampleSource& source) {
  const std::size_t num = source.num_examples();
  std::vector<uint32_t> examples(num);
  std::iota(examples.begin(), examples.end(), 0);
  All all{std::vector<float>(num * static_cast<std::size_t>(source.shape().num_features)), std::vector<int32_t>(num)};
  source.read(examples, all.features, all.labels);
  return all;
}

std::vector<float> features_of(const std::string& path, const ExampleOptions& options = kOptions) {
  return all_of(*open_examples(path, options)).features;
}

std::string images(const std::vector<uint8_t>& pixels) {
  return idx_bytes(0x08, {static_cast<uint32_t>(pixels.size() / 2), 1, 2}, pixels);
}
std::string labels(const std::vector<uint8_t>& of) {
  return idx_bytes(0x08, {static_cast<uint32_t>(of.size())}, of);
}

TEST(ExampleSource, WhatLeavingAFlagOutMeansDependsOnTheFormat) {
  const TempFolder folder;
  const std::string csv = folder.write("a.csv", "1,2,0\n");
  EXPECT_EQ(usual_setting("data-label", csv), "last");
  EXPECT_EQ(usual_setting("data-scale", csv), "column");
  const std::string bytes = folder.write("b", images({1, 2})), of_bytes = folder.write("b-labels", labels({0}));
  EXPECT_EQ(usual_setting("data-label", bytes + ":" + of_bytes), "");
  EXPECT_EQ(usual_setting("data-scale", bytes + ":" + of_bytes), "") << "divided by 255";
  const std::string floats = folder.write("c", idx_bytes(0x0d, {1, 2}, std::vector<float>{1, 2}));
  EXPECT_EQ(usual_setting("data-scale", floats + ":" + of_bytes), "file");
}

TEST(ExampleSource, ReadsExamplesInTheOrderAskedFor) {
  const TempFolder folder;
  const auto source = open_examples(folder.write("a.csv", "1,2,0\n3,4,1\n5,6,2\n"), scaled(DataScale::none));
  std::vector<float> features(4);
  std::vector<int32_t> labels_read(2);
  source->read(std::vector<uint32_t>{2, 0}, features, labels_read);
  EXPECT_EQ(features, (std::vector<float>{5, 6, 1, 2}));
  EXPECT_EQ(labels_read, (std::vector<int32_t>{2, 0}));
  EXPECT_EQ(source->class_counts(), (std::vector<uint64_t>{1, 1, 1}));
  EXPECT_EQ(source->description(), folder.path("a.csv") + ": CSV, label in the last column (3 examples)");
}

TEST(ExampleSource, ScalesCsvByColumn) {
  const TempFolder folder;
  const std::string path = folder.write("a.csv", "10,7,0\n20,7,1\n14,7,1\n");
  EXPECT_EQ(features_of(path), (std::vector<float>{0, 0, 1, 0, 0.4f, 0})) << "a column without a range is 0";
  EXPECT_EQ(features_of(path), features_of(path, scaled(DataScale::column)));
  EXPECT_EQ(features_of(path, scaled(DataScale::none)), (std::vector<float>{10, 7, 20, 7, 14, 7}));
  EXPECT_EQ(features_of(path, scaled(DataScale::file)),
            (std::vector<float>{3 / 13.0, 0, 1, 0, static_cast<float>(7 / 13.0), 0}));
}

TEST(ExampleSource, DataToEvaluateOnHasTheScaleOfTheTrainingData) {
  const TempFolder folder;
  ExampleOptions options = kOptions;
  options.trained = open_examples(folder.write("a.csv", "0,0,0\n4,8,1\n"), kOptions)->scale();
  EXPECT_EQ(features_of(folder.write("b.csv", "1,2,0\n2,16,1\n"), options), (std::vector<float>{0.25, 0.25, 0.5, 2}));
}

TEST(ExampleSource, TheRangeOfAColumnMayBeAsLargeAsFloat32) {
  const TempFolder folder;
  const std::string path = folder.write("a.csv", "-3e38,0,0\n3e38,0,1\n0,0,1\n");
  EXPECT_EQ(features_of(path), (std::vector<float>{0, 0, 1, 0, 0.5, 0}));
}

TEST(ExampleSource, ScalesBytesBy255AndOtherIdxByFile) {
  const TempFolder folder;
  folder.write("labels-idx1", labels({0, 1}));
  const std::string bytes = folder.write("images-idx3", images({0, 51, 102, 204}));
  EXPECT_EQ(features_of(bytes), (std::vector<float>{0, 0.2f, 0.4f, 0.8f}));
  EXPECT_EQ(features_of(bytes, scaled(DataScale::file)), (std::vector<float>{0, 0.25, 0.5, 1}));
  EXPECT_EQ(features_of(bytes, scaled(DataScale::column)), (std::vector<float>{0, 0, 1, 1}));
  EXPECT_EQ(features_of(bytes, scaled(DataScale::none)), (std::vector<float>{0, 51, 102, 204}));
  folder.write("images-idx3", idx_bytes<float>(0x0d, {2, 2}, {-1, 0, 3, 1}));
  EXPECT_EQ(features_of(bytes), (std::vector<float>{0, 0.25, 1, 0.5}));
}

TEST(ExampleSource, HashTellsDataApart) {
  const TempFolder folder;
  const auto hash = [&](const std::string& text, const ExampleOptions& options = kOptions) {
    return content_hash(*open_examples(folder.write("a.csv", text), options));
  };
  const std::string text = "1,2,0\n3,4,1\n";
  EXPECT_EQ(hash(text), hash("x,y,label\n1.0,2,0\n3,4e0,1\n")) << "the same examples";
  EXPECT_NE(hash(text), hash("1,2,0\n3,4,2\n"));
  EXPECT_NE(hash(text), hash("1,2,0\n3,5,1\n"));
  EXPECT_NE(hash(text), hash("3,4,1\n1,2,0\n"));
  EXPECT_NE(hash(text), hash(text, scaled(DataScale::none)));
  const std::string from_zero = "0,0,0\n2,2,1\n";
  EXPECT_NE(hash(from_zero), hash("1,1,0\n2,2,1\n")) << "scaled, the same features";
  EXPECT_NE(hash(from_zero), hash("0,0,0\n3,3,1\n")) << "scaled, the same features";
}

// More than 64 MiB: the ends are always among what is read.
TEST(ExampleSource, HashOfLargeDataReadsAPart) {
  const TempFolder folder;
  const uint32_t num = 40'000, num_pixels = 1000;
  std::vector<uint8_t> pixels(num * num_pixels, 7);
  const ExampleOptions options{{num_pixels, 3}, std::nullopt, std::nullopt};
  const std::string path = folder.path("images-idx2");
  folder.write("labels-idx1", labels(std::vector<uint8_t>(num, 1)));
  folder.write("images-idx2", idx_bytes(0x08, {num, num_pixels}, pixels));
  const std::string hash = content_hash(*open_examples(path, options));
  pixels.back() = 8;
  folder.write("images-idx2", idx_bytes(0x08, {num, num_pixels}, pixels));
  EXPECT_NE(content_hash(*open_examples(path, options)), hash);
}

TEST(ExampleSource, AFileThatIsCutDuringTheRunIsAnError) {
  const TempFolder folder;
  folder.write("labels-idx1", labels({0, 1}));
  const std::string path = folder.write("images-idx3", images({0, 51, 102, 204}));
  const auto source = open_examples(path, kOptions);
  std::filesystem::resize_file(path, 17);
  expect_error([&] { all_of(*source); }, {path});
}

TEST(ExampleSource, RefusesALabelColumnOfIdx) {
  const TempFolder folder;
  folder.write("labels-idx1", labels({0}));
  const std::string path = folder.write("images-idx3", images({0, 1}));
  expect_error<UsageError>(
      [&] {
        open_examples(path, {{2, 3}, LabelColumn::last, std::nullopt});
      },
      {"--data-label names a column of a CSV file, and --data " + path + " is IDX; leave it out"});
}

TEST(ExampleSource, FlagsOfClassifiersAreRefusedForTokens) {
  TrainConfig config;
  config.model = "gpt2";
  EXPECT_NO_THROW(refuse_example_flags(config));
  config.data_scale = DataScale::none;
  expect_error<UsageError>([&] { refuse_example_flags(config); }, {"--data-scale applies to", "--model gpt2"});
  config.data_label = LabelColumn::last;
  expect_error<UsageError>([&] { refuse_example_flags(config); }, {"--data-label applies to", "--model gpt2"});
}

// The digits as CSV, and the same as IDX: what a model is trained on is equal to the bit.
TEST(ExampleSource, DigitsAreTheSameInBothFormats) {
  const ExampleOptions options{{64, 10}, std::nullopt, DataScale::file};
  const auto csv = open_examples(testing::source_dir("examples/digits/digits.csv.gz"), options);
  ASSERT_EQ(csv->num_examples(), 1797u);
  const All all = all_of(*csv);
  EXPECT_EQ(all.labels[0], 0);
  EXPECT_EQ(all.features[2], 5 / 16.0f);
  EXPECT_EQ(csv->class_counts(), (std::vector<uint64_t>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}));
  std::vector<uint8_t> pixels(all.features.size());
  std::ranges::transform(all.features, pixels.begin(), [](float f) { return static_cast<uint8_t>(16 * f); });
  const TempFolder folder;
  folder.write("train-images-idx3-ubyte.gz", gzip(idx_bytes(0x08, {1797, 8, 8}, pixels)));
  folder.write("train-labels-idx1-ubyte.gz", gzip(labels(std::vector<uint8_t>(all.labels.begin(), all.labels.end()))));
  const auto idx = open_examples(folder.path(), options);
  EXPECT_EQ(all_of(*idx).features, all.features);
  EXPECT_EQ(all_of(*idx).labels, all.labels);
  EXPECT_EQ(content_hash(*idx), content_hash(*csv));
}

TEST(ExampleWarnings, SayWhatIsOdd) {
  const TempFolder folder;
  const auto warnings = [&](const std::string& text, int64_t examples_per_step) {
    const auto source = open_examples(folder.write("a.csv", text), kOptions);
    return example_warnings(*source, examples_per_step);
  };
  const std::string all_classes = "1,2,0\n3,4,1\n5,6,2\n";
  EXPECT_EQ(warnings(all_classes, 2), std::vector<std::string>{});
  EXPECT_EQ(warnings("1,2,0\n3,4,2\n", 1),
            std::vector<std::string>{"the data has no example of class 1, and the model has 3 classes"});
  EXPECT_EQ(warnings("1,2,0\n3,4,0\n", 1),
            std::vector<std::string>{"every example of the data has label 0; is another column the label? (see "
                                     "--data-label)"});
  EXPECT_EQ(warnings(all_classes, 3),
            std::vector<std::string>{"the data is short: a step takes 3 examples, and there are 3; use more data, or a "
                                     "smaller --batch-size or --grad-accum"});
  EXPECT_EQ(warnings("1,2,0\n", 1).back(),
            "the data is short: a step takes 1 example, and there is 1; use more data, or a smaller --batch-size or "
            "--grad-accum");
}

}  // namespace
}  // namespace tessera::host
