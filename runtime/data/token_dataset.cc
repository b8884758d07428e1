#include "data/token_dataset.h"

#include "base/concat.h"
#include "data/batch_order.h"
#include "data/data_warnings.h"

namespace tessera::host {
namespace {

class TokenReader : public DatasetReader {
 public:
  TokenReader(const TokenSource& source, const DatasetUse& use)
      : order_(source, use.batch, use.seq, use.data_ranks),
        num_tokens_(static_cast<std::size_t>(use.batch * use.seq)) {}

  std::vector<InputValues> read(int64_t data_rank) const override {
    std::vector<int32_t> inputs(num_tokens_), targets(num_tokens_);
    order_.read(data_rank, inputs, targets);
    return {std::move(inputs), std::move(targets)};
  }
  void advance() override { order_.advance(); }
  uint64_t position() const override { return order_.position(); }
  void set_position(uint64_t position) override { order_.set_position(position); }

 private:
  BatchOrder order_;
  std::size_t num_tokens_;
};

class TokenDataset : public Dataset {
 public:
  TokenDataset(std::unique_ptr<TokenSource> source, int64_t vocab) : source_(std::move(source)), vocab_(vocab) {}

  std::string description() const override { return source_->description(); }
  std::pair<std::string, std::string> size() const override {
    return {"tokens in the data", std::to_string(source_->num_tokens())};
  }
  std::string fingerprint() const override {
    return concat(source_->num_tokens(), " tokens, sha256 ", content_hash(*source_).substr(0, 16));
  }
  std::vector<std::string> warnings(const DatasetUse& use) const override {
    return data_warnings(*source_, {vocab_, use.batch * use.seq * use.data_ranks, use.grad_accum, use.steps});
  }
  std::unique_ptr<DatasetReader> reader(const DatasetUse& use) const override {
    return std::make_unique<TokenReader>(*source_, use);
  }

 private:
  std::unique_ptr<TokenSource> source_;
  int64_t vocab_;
};

}  // namespace

std::unique_ptr<Dataset> token_dataset(std::unique_ptr<TokenSource> source, int64_t vocab) {
  return std::make_unique<TokenDataset>(std::move(source), vocab);
}

}  // namespace tessera::host
