// One step: read its micro-batches, run the program, report. Then, in this order, what may happen between two steps:
// the run is found lost, it stops, it is evaluated, it is saved. After the last one it is saved once more. All of that
// is decided by values that are equal on all ranks (the step's number, its result, the requests in its run words), so
// the ranks do it together without a message.

#include "train/train_steps.h"

#include <chrono>
#include <optional>

#include "base/clock.h"
#include "base/progress.h"
#include "train/checks/lost_run.h"
#include "train/evaluator.h"
#include "train/learning_rate.h"
#include "train/loss_scaler.h"
#include "train/report/step_report.h"
#include "train/run_requests.h"
#include "train/saving/own_folder.h"
#include "train/saving/resume.h"

namespace tessera::host {
namespace {

using Clock = std::chrono::steady_clock;

/// A checkpoint reports progress only after this time: it has a line when it is done.
constexpr std::chrono::seconds kSilence{30};

/// Evaluates, and tells log and observer.
class Evaluations {
 public:
  explicit Evaluations(const RankParts& parts) : parts_(parts), every_(parts.job.config.eval_every) {
    if (parts.data.evaluation) evaluator_.emplace(parts.job, *parts.data.evaluation, parts.info.rank);
  }

  /// `step` counts from 1. Returns the loss if it was due.
  std::optional<EvalMetrics> after_step(int64_t step) const {
    if (!evaluator_ || (step != parts_.job.config.steps && (every_ == 0 || step % every_ != 0))) return std::nullopt;
    return run(step);
  }
  EvalMetrics run(int64_t after_step) const {
    const EvalMetrics result = evaluator_->run(parts_.runtime, after_step, parts_.first_log);
    parts_.times.add_evaluation(result.seconds);
    parts_.observer.on_eval(result);
    report_evaluation(parts_.first_log, result);
    return result;
  }

 private:
  const RankParts& parts_;
  const int64_t every_;
  std::optional<Evaluator> evaluator_;
};

class TrainLoop {
 public:
  TrainLoop(const RankParts& parts, CheckpointSaver& saver, const RunState& state)
      : parts_(parts),
        config_(parts.job.config),
        saver_(saver),
        state_(state),
        data_rank_(parts.job.mesh.data_rank(parts.job.mesh.coordinates(parts.info.rank))),
        reader_(parts.data.training->reader(dataset_use(parts.job))),
        scaler_(parts.runtime.scales_loss()),
        lost_(parts.job, parts.info, parts.runtime),
        requests_(parts.observer.requests, [&parts] { return !parts.observer.output_error().empty(); }),
        evaluations_(parts),
        report_(parts.first_log, parts.job, state.step) {
    if (state.step == 0) return;
    if (state.best_step > 0) {
      EvalMetrics best;
      best.after_step = state.best_step;
      best.loss = state.best_loss;
      report_.set_best(best);
    }
    reader_->set_position(state.data_position);
    scaler_.restore(state.loss_scale, state.updates_at_scale);
  }

  RunEnd run() {
    const int64_t first = state_.step;
    RunEnd end;
    while (state_.step < config_.steps) {
      run_step();
      saver_.poll();
      if (!is_last() && requests_.stops()) {  // before an evaluation, which may take longer than a stop may
        best_loss_.reset();
        end.why_stopped = requests_.why_it_stops();
        break;
      }
      evaluate_if_due();
      if (!is_last()) save_if_due();
    }
    report_.end();
    end.steps_before = first;
    end.last_step = state_.step;
    parts_.profiler.end();
    if (end.why_stopped.empty())
      lost_.after_last_step();
    else if (saver_.is_on())
      lost_.before_saving();
    // Without a step the state is that of --resume: saved once more only into another folder, which changes its layout.
    if (saver_.is_on() && (first < state_.step || !may_start_anew(config_)))
      timed_save([&] { end.save_error = saver_.save_last(saved_state(), best_loss_); });
    end.saved_step = saver_.last_saved();
    end.loss = last_loss_;
    end.smoothed_loss = report_.smoothed_loss();
    end.best_evaluation = report_.best_evaluation();
    return end;
  }

 private:
  bool is_last() const { return state_.step == config_.steps; }

  void run_step() {
    const int64_t step = state_.step;
    const auto start = Clock::now();
    const auto batches = next_batches();
    StepMetrics line;
    line.step = step + 1;
    line.items = parts_.job.items();
    line.lr = learning_rate(config_, step);
    line.loss_scale = scaler_.scale();
    parts_.replicas.before_step(step);
    const StepResult result = parts_.runtime.run_step(static_cast<uint64_t>(step), line.lr, line.loss_scale, batches,
                                                      requests_.before_step(), parts_.profiler.before_step(line.step));
    requests_.after_step(result.requested);
    scaler_.update(result.updated);
    state_.step = line.step;
    state_.tokens += parts_.job.tokens_per_step();
    report(line, result, start);
    parts_.replicas.after_step(step);
    parts_.profiler.after_step(line.step);
    lost_.after_step(line.step, result);
  }

  void evaluate_if_due() {
    const std::optional<EvalMetrics> result = evaluations_.after_step(state_.step);
    best_loss_.reset();
    if (!result) return;
    report_.after_evaluation(*result);
    if (saver_.is_best(result->loss)) best_loss_ = result->loss;
  }

  std::vector<MicroBatch> next_batches() {
    std::vector<MicroBatch> batches(static_cast<size_t>(config_.grad_accum));
    for (MicroBatch& batch : batches) {
      // Ranks that differ only in other axes (pipeline stages, tensor shards) have the same data rank and read the
      // same.
      batch = reader_->read(data_rank_);
      reader_->advance();
    }
    return batches;
  }

  void report(StepMetrics& line, const StepResult& result, Clock::time_point start) {
    const auto tokens = static_cast<double>(parts_.job.tokens_per_step());
    // The sum is exact and unscaled, so this is the mean over all tokens, however they are divided into micro-batches
    // and ranks.
    line.loss = result.loss_sum / tokens;
    if (result.num_correct) line.accuracy = static_cast<double>(*result.num_correct) / tokens;
    line.grad_norm = result.grad_norm;
    line.updated = result.updated;
    line.seconds = seconds_since(first_start_);
    line.step_ms = seconds_since(start) * 1e3;
    line.tokens_per_second = tokens / line.step_ms * 1e3;
    line.tokens = state_.tokens;
    const MeasuredMemory memory = parts_.meter.measure();
    line.memory_bytes = memory.now_bytes;
    line.peak_memory_bytes = memory.peak_bytes;
    parts_.moves.measure(line);
    parts_.observer.on_step(line);
    parts_.times.add_step(line.step_ms);
    last_loss_ = line.loss;
    report_.after_step(line, scaler_);
  }

  void save_if_due() {
    if (requests_.saves() && !saver_.is_on())
      parts_.first_log.warning("SIGUSR1 asks for a checkpoint, but this run saves none; start it with --save FOLDER");
    if (!saver_.is_on() || !(saver_.is_due(state_.step) || best_loss_ || requests_.saves())) return;
    if (!saver_.is_async()) lost_.before_saving();
    timed_save([&] { saver_.save(saved_state(), best_loss_); });
  }

  template <class Save>
  void timed_save(const Save& save) {
    const auto start = Clock::now();
    const Progress progress(parts_.first_log, "saving the checkpoint", kSilence);
    save();
    parts_.times.add_saving(seconds_since(start));
  }

  RunState saved_state() {
    state_.data_position = reader_->position();
    state_.loss_scale = scaler_.scale();
    state_.updates_at_scale = scaler_.num_updates();
    return state_;
  }

  const RankParts& parts_;
  const TrainConfig& config_;
  CheckpointSaver& saver_;
  RunState state_;  // after the last step
  const int data_rank_;
  const std::unique_ptr<DatasetReader> reader_;
  LossScaler scaler_;  // each rank has its own: outcomes of steps are equal on all ranks, so the scales are
  LostRunCheck lost_;
  AgreedRequests requests_;
  const Evaluations evaluations_;
  std::optional<double> best_loss_;  // of the last step, if its evaluation was the best for --save-best
  std::optional<double> last_loss_;
  StepReport report_;
  const Clock::time_point first_start_ = Clock::now();
};

}  // namespace

RunEnd train_steps(const RankParts& parts, CheckpointSaver& saver, const RunState& state) {
  return TrainLoop(parts, saver, state).run();
}

void evaluate_once(const RankParts& parts) {
  Evaluations(parts).run(0);
}

}  // namespace tessera::host
