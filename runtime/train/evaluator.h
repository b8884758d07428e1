// The loss of a model on data that it is not trained on.
#pragma once

#include <string>

#include "base/log.h"
#include "base/metrics.h"
#include "data/dataset.h"
#include "exec/rank_runtime.h"
#include "job/job.h"

namespace tessera::host {

/// What an evaluation is of: the data's fingerprint, and how much of it. Losses of other texts are not to be compared.
/// The first call reads the data (Dataset::fingerprint).
std::string evaluated_text(const Job& job, const Dataset& data);

/// Evaluates on all of the data, or on its first --eval-batches batches. Losses are summed without rounding over
/// batches and ranks, so how the data is divided changes no bit of their mean, only what the kernels compute for a
/// token can (docs/evaluation.md). [control-thread]
class Evaluator {
 public:
  /// Borrows its arguments.
  Evaluator(const Job& job, const Dataset& data, int rank);

  /// Collective; changes no parameter. `after_step`: the steps before it. `log` gets the progress of a long one.
  EvalMetrics run(RankRuntime& runtime, int64_t after_step, const Log& log) const;

 private:
  const Job& job_;
  const Dataset& data_;
  const int data_rank_;
  const int64_t num_predictions_, num_batches_;
};

}  // namespace tessera::host
