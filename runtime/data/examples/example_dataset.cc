// Gives examples the interface of all datasets. Training walks through epochs without end (example_order.h). A pass for
// evaluation takes each example once, in the order of the file; ranks beyond the end repeat the last one, without its
// label, so that every rank has a full batch and nothing counts twice.

#include "data/examples/example_dataset.h"

#include <algorithm>

#include "data/examples/example_order.h"
#include "data/examples/example_warnings.h"
#include "tessera/device.h"

namespace tessera::host {
namespace {

class ExampleReader : public DatasetReader {
 public:
  ExampleReader(const ExampleSource& source, const DatasetUse& use)
      : order_(source, use.batch, use.data_ranks, use.seed, use.order == DataOrder::shuffled),
        num_features_(static_cast<std::size_t>(source.shape().num_features)),
        batch_(static_cast<std::size_t>(use.batch)) {}

  std::vector<InputValues> read(int64_t data_rank) const override {
    std::vector<float> features(batch_ * num_features_);
    std::vector<int32_t> labels(batch_);
    order_.read(data_rank, features, labels);
    return {std::move(features), std::move(labels)};
  }
  void advance() override { order_.advance(); }
  uint64_t position() const override { return order_.position(); }
  void set_position(uint64_t position) override { order_.set_position(position); }

 private:
  ExampleOrder order_;
  std::size_t num_features_, batch_;
};

/// The examples in the order of the file, once; what a batch lacks at the end is the last example without its label.
class ExamplePass : public DatasetPass {
 public:
  ExamplePass(const ExampleSource& source, const DatasetUse& use)
      : source_(source), batch_(static_cast<uint64_t>(use.batch)), data_ranks_(static_cast<uint64_t>(use.data_ranks)) {}

  std::vector<InputValues> read(int64_t data_rank) const override {
    const uint64_t begin = position_ + static_cast<uint64_t>(data_rank) * batch_, num = source_.num_examples();
    std::vector<uint32_t> examples(batch_);
    for (uint64_t i = 0; i < batch_; ++i)
      examples[i] = static_cast<uint32_t>(std::min(begin + i, num - 1));
    std::vector<float> features(batch_ * static_cast<uint64_t>(source_.shape().num_features));
    std::vector<int32_t> labels(batch_);
    source_.read(examples, features, labels);
    const uint64_t num_left = begin < num ? std::min(batch_, num - begin) : 0;
    std::fill(labels.begin() + static_cast<std::ptrdiff_t>(num_left), labels.end(), TSR_NO_TARGET);
    return {std::move(features), std::move(labels)};
  }
  void advance() override { position_ += batch_ * data_ranks_; }

 private:
  const ExampleSource& source_;
  uint64_t batch_, data_ranks_;
  uint64_t position_ = 0;
};

class ExampleDataset : public Dataset {
 public:
  explicit ExampleDataset(std::unique_ptr<ExampleSource> source) : source_(std::move(source)) {}

  std::string description() const override { return source_->description(); }
  std::pair<std::string, std::string> size() const override {
    return {"examples", std::to_string(source_->num_examples())};
  }
  std::vector<std::string> warnings(const DatasetUse& use) const override {
    return example_warnings(*source_, use.steps == 0 ? 0 : use.batch * use.data_ranks * use.grad_accum);
  }
  std::unique_ptr<DatasetReader> reader(const DatasetUse& use) const override {
    return std::make_unique<ExampleReader>(*source_, use);
  }
  std::unique_ptr<DatasetPass> pass(const DatasetUse& use) const override {
    return std::make_unique<ExamplePass>(*source_, use);
  }
  int64_t num_predictions() const override { return static_cast<int64_t>(source_->num_examples()); }

 private:
  std::string content_hash() const override { return host::content_hash(*source_); }

  std::unique_ptr<ExampleSource> source_;
};

}  // namespace

std::unique_ptr<Dataset> example_dataset(std::unique_ptr<ExampleSource> source) {
  return std::make_unique<ExampleDataset>(std::move(source));
}

}  // namespace tessera::host
