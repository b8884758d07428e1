// A batch of an evaluation has the items of a step: --grad-accum micro-batches of all data ranks. The last one is
// filled up with items without a target (data/dataset.h), so the eval program has one shape and every item counts once:
//
//     loss             exact sum of the items' float32 losses / items
//     perplexity       e^loss
//     bits per byte    loss / ln 2, where tokens are bytes

#include "train/evaluator.h"

#include <chrono>
#include <cmath>
#include <numbers>

#include "base/clock.h"
#include "base/concat.h"
#include "base/progress.h"

namespace tessera::host {
namespace {

using Clock = std::chrono::steady_clock;

/// An evaluation reports progress only after this time: its result has a line anyway.
constexpr std::chrono::seconds kSilence{30};

/// What the batches predict, and how many they are.
int64_t predictions_of(const Job& job, const Dataset& data) {
  const int64_t most = job.config.eval_batches;
  return most == 0 || data.num_predictions() / job.tokens_per_step() < most ? data.num_predictions()
                                                                            : most * job.tokens_per_step();
}

std::vector<MicroBatch> next_batches(const Job& job, DatasetPass& pass, int data_rank) {
  std::vector<MicroBatch> batches(static_cast<size_t>(job.config.grad_accum));
  for (MicroBatch& batch : batches) {
    batch = pass.read(data_rank);
    pass.advance();
  }
  return batches;
}

}  // namespace

std::string evaluated_text(const Job& job, const Dataset& data) {
  return concat("the first ", predictions_of(job, data), " predictions of ", data.fingerprint());
}

Evaluator::Evaluator(const Job& job, const Dataset& data, int rank)
    : job_(job),
      data_(data),
      data_rank_(job.mesh.data_rank(job.mesh.coordinates(rank))),
      num_predictions_(predictions_of(job, data)),
      num_batches_((num_predictions_ + job.tokens_per_step() - 1) / job.tokens_per_step()) {}

EvalMetrics Evaluator::run(RankRuntime& runtime, int64_t after_step, const Log& log) const {
  const auto start = Clock::now();
  Progress progress(log, "evaluating", kSilence);
  const auto pass = data_.pass(dataset_use(job_));
  Accumulator losses{};
  std::optional<int64_t> num_correct;
  for (int64_t i = 0; i < num_batches_; ++i) {
    progress.at(static_cast<uint64_t>(i), static_cast<uint64_t>(num_batches_));
    const Evaluation batch = runtime.run_eval(next_batches(job_, *pass, data_rank_));
    accumulate(losses, batch.losses);
    carry(losses);
    if (batch.num_correct) num_correct = num_correct.value_or(0) + *batch.num_correct;
  }
  EvalMetrics result;
  result.after_step = after_step;
  result.items = job_.items();
  result.num_items = num_predictions_;
  result.loss = decode(losses) / static_cast<double>(num_predictions_);
  if (num_correct) result.accuracy = static_cast<double>(*num_correct) / static_cast<double>(num_predictions_);
  if (!num_correct) result.perplexity = std::exp(result.loss);
  if (data_.tokens_are_bytes()) result.bits_per_byte = result.loss / std::numbers::ln2;
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace tessera::host
