// Gives tokens the interface of all datasets. The order of training is one of two walks, by --data-order: BatchOrder
// (sequential) and SequenceOrder (shuffled). A pass for evaluation takes the windows of BatchOrder once, so that each
// token but the first is predicted once, by any number of ranks:
//
//     tokens   | rank 0 | rank 1 | rank 0 | ra          what is missing at the end is token 0 without a target

#include "data/token_dataset.h"

#include <algorithm>

#include "base/concat.h"
#include "data/batch_order.h"
#include "data/data_warnings.h"
#include "data/sequence_order.h"
#include "tessera/device.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

/// `Order`: BatchOrder or SequenceOrder.
template <class Order>
class TokenReader : public DatasetReader {
 public:
  TokenReader(Order order, const DatasetUse& use)
      : order_(std::move(order)), num_tokens_(static_cast<std::size_t>(use.batch * use.seq)) {}

  std::vector<InputValues> read(int64_t data_rank) const override {
    std::vector<int32_t> inputs(num_tokens_), targets(num_tokens_);
    order_.read(data_rank, inputs, targets);
    return {std::move(inputs), std::move(targets)};
  }
  void advance() override { order_.advance(); }
  uint64_t position() const override { return order_.position(); }
  void set_position(uint64_t position) override { order_.set_position(position); }

 private:
  Order order_;
  std::size_t num_tokens_;
};

/// The windows of BatchOrder, once; what they lack at the end is token 0 without a target.
class TokenPass : public DatasetPass {
 public:
  TokenPass(const TokenSource& source, const DatasetUse& use)
      : source_(source),
        window_tokens_(static_cast<uint64_t>(use.batch * use.seq)),
        step_tokens_(window_tokens_ * static_cast<uint64_t>(use.data_ranks)) {
    if (source.num_tokens() < 2)
      throw Error(TSR_E_INVALID_ARGUMENT, concat(source.description(),
                                                 " is too short to be evaluated: a prediction "
                                                 "needs two tokens; give more data"));
  }

  std::vector<InputValues> read(int64_t data_rank) const override {
    std::vector<int32_t> inputs(window_tokens_), targets(window_tokens_, TSR_NO_TARGET);
    const uint64_t begin = position_ + static_cast<uint64_t>(data_rank) * window_tokens_;
    const uint64_t num_predictions = source_.num_tokens() - 1;
    if (begin < num_predictions) {
      std::vector<int32_t> tokens(std::min(window_tokens_, num_predictions - begin) + 1);
      source_.read(begin, tokens);
      std::copy(tokens.begin(), tokens.end() - 1, inputs.begin());
      std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
    }
    return {std::move(inputs), std::move(targets)};
  }
  void advance() override { position_ += step_tokens_; }

 private:
  const TokenSource& source_;
  uint64_t window_tokens_;  // of one rank
  uint64_t step_tokens_;    // of all data ranks
  uint64_t position_ = 0;
};

class TokenDataset : public Dataset {
 public:
  TokenDataset(std::unique_ptr<TokenSource> source, int64_t vocab) : source_(std::move(source)), vocab_(vocab) {}

  std::string description() const override { return source_->description(); }
  std::pair<std::string, std::string> size() const override {
    return {"tokens", std::to_string(source_->num_tokens())};
  }
  std::vector<std::string> warnings(const DatasetUse& use) const override {
    return data_warnings(*source_, {vocab_, use.batch * use.seq * use.data_ranks, use.grad_accum, use.steps});
  }
  std::unique_ptr<DatasetReader> reader(const DatasetUse& use) const override {
    if (use.order == DataOrder::shuffled)
      return std::make_unique<TokenReader<SequenceOrder>>(
          SequenceOrder(*source_, use.batch, use.seq, use.data_ranks, use.seed), use);
    return std::make_unique<TokenReader<BatchOrder>>(BatchOrder(*source_, use.batch, use.seq, use.data_ranks), use);
  }
  std::unique_ptr<DatasetPass> pass(const DatasetUse& use) const override {
    return std::make_unique<TokenPass>(*source_, use);
  }
  int64_t num_predictions() const override { return static_cast<int64_t>(source_->num_tokens()) - 1; }
  bool tokens_are_bytes() const override { return source_->is_text(); }

 private:
  std::string content_hash() const override { return host::content_hash(*source_); }

  std::unique_ptr<TokenSource> source_;
  int64_t vocab_;
};

}  // namespace

std::unique_ptr<Dataset> token_dataset(std::unique_ptr<TokenSource> source, int64_t vocab) {
  return std::make_unique<TokenDataset>(std::move(source), vocab);
}

}  // namespace tessera::host
