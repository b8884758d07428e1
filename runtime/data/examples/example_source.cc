// Examples are checked in full when they are opened, so that a bad cell in the last line is an error before step 1.
// Ranks compare a hash of scaled features and labels: files of different formats with equal content count as equal. The
// values to scale by are in it too: of a sample, features may be equal where others are not.

#include "data/examples/example_source.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/concat.h"
#include "base/sha256.h"
#include "config/usage_error.h"
#include "data/examples/csv_file.h"
#include "data/examples/idx_file.h"
#include "data/examples/idx_pair.h"
#include "tessera/error.hpp"
#include "weights/sample_blocks.h"

namespace tessera::host {
namespace {

// Examples are numbered in uint32, which is also all that an IDX file can hold.
void check_count(const std::string& path, const ExampleTable& table) {
  if (table.labels.size() <= std::numeric_limits<uint32_t>::max()) return;
  throw Error(TSR_E_UNSUPPORTED, concat(path, " has ", table.labels.size(), " examples; at most ",
                                        std::numeric_limits<uint32_t>::max(), " are supported"));
}

ExampleTable read_table(const std::string& path, const ExampleOptions& options) {
  const auto pair = find_idx_pair(path);
  if (!pair) return read_csv(path, options.shape, options.label.value_or(LabelColumn::last));
  if (options.label)
    throw UsageError("--data-label names a column of a CSV file, and --data " + path + " is IDX; leave it out");
  return read_idx(pair->images, pair->labels, options.shape);
}

}  // namespace

ExampleSource::ExampleSource(ExampleTable table, const ExampleOptions& options)
    : shape_(options.shape),
      table_(std::move(table)),
      scale_(options.trained ? *options.trained : FeatureScale(table_, shape_.num_features, options.scale)),
      class_counts_(static_cast<std::size_t>(shape_.num_classes)) {
  for (const int32_t label : table_.labels)
    ++class_counts_[static_cast<std::size_t>(label)];
}

void ExampleSource::read(std::span<const uint32_t> examples, std::span<float> features,
                         std::span<int32_t> labels) const {
  const auto num_features = static_cast<std::size_t>(shape_.num_features);
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const auto row = features.subspan(i * num_features, num_features);
    table_.features->read(examples[i], row);
    scale_.apply(row);
    labels[i] = table_.labels[examples[i]];
  }
}

std::string ExampleSource::description() const {
  return concat(table_.description, " (", counted(num_examples(), "example"), ")");
}

std::unique_ptr<ExampleSource> open_examples(const std::string& path, const ExampleOptions& options) {
  ExampleTable table = read_table(path, options);
  check_count(path, table);
  return std::make_unique<ExampleSource>(std::move(table), options);
}

std::string content_hash(const ExampleSource& source) {
  const auto num_features = static_cast<uint64_t>(source.shape().num_features);
  const uint64_t example_bytes = num_features * sizeof(float) + sizeof(int32_t);
  const uint64_t block = std::max<uint64_t>(1, kSampledBlockBytes / example_bytes), total = source.num_examples();
  const bool is_whole = total <= kMaxWholeBytes / example_bytes;
  Sha256 hash;
  hash.add(std::as_bytes(source.scale().least()));
  hash.add(std::as_bytes(source.scale().greatest()));
  std::vector<uint32_t> examples;
  std::vector<float> features;
  std::vector<int32_t> labels;
  for (const uint64_t begin : sample_blocks(total, block, is_whole ? total / block + 2 : kSampledBlocks)) {
    examples.resize(std::min(block, total - begin));
    std::iota(examples.begin(), examples.end(), static_cast<uint32_t>(begin));
    features.resize(examples.size() * num_features);
    labels.resize(examples.size());
    source.read(examples, features, labels);
    hash.add(std::as_bytes(std::span(features)));
    hash.add(std::as_bytes(std::span(labels)));
  }
  return hash.hex();
}

std::string usual_setting(std::string_view flag, const std::string& path) {
  const auto pair = find_idx_pair(path);
  if (flag == "data-label") return pair ? "" : "last";
  if (!pair) return "column";
  ByteStream images(pair->images);
  return read_idx_header(images).type == IdxType::unsigned_byte ? "" : "file";
}

void refuse_example_flags(const TrainConfig& config) {
  const char* const flag = config.data_label ? "--data-label" : config.data_scale ? "--data-scale" : nullptr;
  if (flag)
    throw UsageError(concat(flag, " applies to the features of a classifier, and --model ", config.model,
                            " is trained on tokens; leave it out"));
}

}  // namespace tessera::host
