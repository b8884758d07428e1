// What `--data` names: tokens for a language model, or examples for a classifier.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "config/train_config.h"

namespace tessera::host {

/// The values of one input of a model for one micro-batch: tokens, targets and labels are int32, features float.
using InputValues = std::variant<std::vector<int32_t>, std::vector<float>>;

/// How a run walks through its data.
struct DatasetUse {
  int64_t batch = 0;       ///< sequences or examples of a rank and micro-batch
  int64_t seq = 1;         ///< tokens of a sequence; unused for examples
  int64_t data_ranks = 1;  ///< ranks that read different data
  int64_t grad_accum = 1;  ///< micro-steps of a step
  int64_t steps = 0;       ///< 0: an evaluation, which reads all once
  DataOrder order = DataOrder::sequential;
  uint64_t seed = 0;  ///< decides what order is shuffled
};

/// A walk through a dataset, which must outlive it. [control-thread]
class DatasetReader {
 public:
  virtual ~DatasetReader() = default;

  /// The micro-batch of one data rank in the current micro-step: the model's inputs in their order, [batch * seq]
  /// tokens and targets, or [batch * num_features] features and [batch] labels.
  virtual std::vector<InputValues> read(int64_t data_rank) const = 0;
  /// Moves to the next micro-step.
  virtual void advance() = 0;
  /// The current micro-step, as a checkpoint saves it: also of use to a run with other batches or data ranks.
  virtual uint64_t position() const = 0;
  /// Throws INVALID_ARGUMENT for a position beyond the data.
  virtual void set_position(uint64_t position) = 0;
};

/// All data once, in its order, for evaluation; the dataset must outlive it. Micro-steps that go beyond the end are
/// filled up: there the target or label is TSR_NO_TARGET, which counts for nothing. [control-thread]
class DatasetPass {
 public:
  virtual ~DatasetPass() = default;

  /// As DatasetReader.
  virtual std::vector<InputValues> read(int64_t data_rank) const = 0;
  virtual void advance() = 0;
};

/// Data of one kind, opened. [any-thread]
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// What the data was taken for, for the log.
  virtual std::string description() const = 0;
  /// A number that all ranks compare, after what it counts: "tokens", "1003854".
  virtual std::pair<std::string, std::string> size() const = 0;
  /// Size and hash, for ranks that may read different files and for runs that go on later: "1003854 tokens, sha256
  /// 0123456789abcdef". The first call reads up to 64 MiB of the data.
  const std::string& fingerprint() const;
  /// Warnings before training, one sentence each.
  virtual std::vector<std::string> warnings(const DatasetUse& use) const = 0;
  /// Starts at the beginning. Throws INVALID_ARGUMENT for data that is too short for a micro-step.
  virtual std::unique_ptr<DatasetReader> reader(const DatasetUse& use) const = 0;

  /// Starts at the beginning. Throws INVALID_ARGUMENT for data with nothing to predict.
  virtual std::unique_ptr<DatasetPass> pass(const DatasetUse& use) const = 0;
  /// What a pass predicts: every token but the first, or every example.
  virtual int64_t num_predictions() const = 0;
  /// Tokens are bytes of text, so a loss can be stated in bits per byte.
  virtual bool tokens_are_bytes() const { return false; }

 private:
  /// In hexadecimal, of all the data or of samples of it.
  virtual std::string content_hash() const = 0;

  mutable std::once_flag hashed_;
  mutable std::string fingerprint_;
};

}  // namespace tessera::host
