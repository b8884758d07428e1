// When a run saves, and how long its steps wait for that.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/metrics.h"
#include "checkpoint/index.h"
#include "data/dataset.h"
#include "exec/rank_runtime.h"
#include "job/job.h"
#include "train/rank_info.h"
#include "train/rank_observer.h"
#include "train/saving/checkpoint_writer.h"

namespace tessera::host {

/// Saves into --save; does nothing without it. With --save-async a thread of its own writes while steps run, at most
/// one checkpoint at a time. Collective: every rank calls every function after the same steps. [control-thread]
class CheckpointSaver {
 public:
  /// Borrows its arguments. `start`: where the run begins. Throws RESOURCE_EXHAUSTED without memory for the copy that
  /// --save-async writes, and what CheckpointWriter::check_folder throws.
  CheckpointSaver(const Job& job, const RunData& data, const RankInfo& info, const RankObserver& observer,
                  RankRuntime& runtime, const RunState& start, const Log& log);
  /// Waits for the checkpoint that is being written; does not throw.
  ~CheckpointSaver();

  bool is_on() const { return writer_ != nullptr; }
  /// Whether checkpoints are written while steps run. They are then refused when a parameter is not finite.
  bool is_async() const { return copy_ != nullptr; }
  /// Whether --save-every asks for a checkpoint after that step.
  bool is_due(int64_t step) const;
  /// Whether --save-best asks for one: no evaluation of the run had a loss as low as this, of those that were saved.
  bool is_best(double loss);
  /// The step of the last checkpoint that succeeded, or that the run goes on from in the same folder; 0: there is none,
  /// or it was removed.
  int64_t last_saved() const;

  /// Saves the state between two steps; what is best so far and optimizer_step are filled in. `best_loss`: of the
  /// evaluation that made it the best. When it fails, rank 0 warns with file and reason, what was written is removed,
  /// and the run may go on. Throws only when the ranks cannot meet.
  void save(RunState state, std::optional<double> best_loss);
  /// After the last step: returns when everything is written. Returns why this checkpoint failed; empty: it did not.
  std::string save_last(RunState state, std::optional<double> best_loss);
  /// Between two steps: reports the checkpoint that was written meanwhile, if it is done. Throws as save() does.
  void poll();

 private:
  using Clock = std::chrono::steady_clock;
  /// A checkpoint that is being written.
  struct UnderWay {
    RunState state;
    bool is_best = false;
    double pause_ms = 0;
    struct End {
      WrittenCheckpoint written;
      double ms = 0;
    };
    std::future<End> end;
  };

  void begin_best(std::string evaluated);
  void reserve_copy(const Program& program);
  RunState complete(RunState state, std::optional<double> best_loss);
  void begin_async(const RunState& state, bool is_best, Clock::time_point start);
  void wait_for_previous(int64_t step);
  void finish(bool steps_wait = true);
  SaveMetrics write_now(const RunState& state, bool is_best, Clock::time_point start);
  SaveMetrics settle(const RunState& state, bool is_best, const WrittenCheckpoint& written);
  std::span<const std::byte> copied(const HeldTensor& tensor, uint64_t begin, uint64_t end);
  std::span<const std::byte> fetched(const HeldTensor& tensor, uint64_t begin, uint64_t end,
                                     std::span<std::byte> piece);
  void report(const SaveMetrics& metrics, bool is_last) const;

  const Job& job_;
  const RankInfo& info_;
  const RankObserver& observer_;
  RankRuntime& runtime_;
  const Log& log_;
  std::unique_ptr<CheckpointWriter> writer_;  // null: nothing is saved
  StateCopy* copy_ = nullptr;                 // the runtime's; null: checkpoints are written between steps
  std::vector<uint64_t> addresses_;           // in the copy, by tensor
  std::optional<UnderWay> under_way_;
  bool has_warned_of_waiting_ = false;
  int64_t last_saved_ = 0;
  int64_t best_step_ = 0;  // of the checkpoints that succeeded
  double best_loss_ = 0;
  std::string best_of_;    // RunState::best_of
  std::string evaluated_;  // what this run's losses are of
};

}  // namespace tessera::host
