// Rank 0's files are written from its observer: the plan when all programs have passed, the rest from the first step
// on. Metrics and events are written after each step, by the background writer. The other ranks log about once a second
// which step they are in, so that the log of a rank that hangs or lags shows where.

#include "record/rank_record.h"

#include <unistd.h>

#include <chrono>
#include <ctime>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "base/durable_file.h"
#include "config/settings/settings_file.h"
#include "plan/drawing/step_svg.h"
#include "plan/plan_report.h"
#include "plan/prediction/step_cost.h"
#include "record/background_writer.h"
#include "record/environment.h"
#include "record/event_file.h"
#include "record/resolved_config.h"
#include "record/run_folder.h"
#include "storage/folder_lock.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using Clock = std::chrono::steady_clock;

// Of the log, in memory until the run begins: the launcher plans and checks before that.
constexpr size_t kMaxEarlyBytes = 1 << 20;
constexpr auto kNoteEvery = std::chrono::seconds(1);
/// A drawing takes about 300 bytes per action; with more actions no browser shows it.
constexpr size_t kMaxDrawnActions = 100'000;

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[32];
  return {text, std::strftime(text, sizeof text, "[%Y-%m-%d %H:%M:%S]", &local)};
}

std::vector<Scalar> scalars_of(const StepMetrics& step) {
  const bool has_tokens = step.items == "tokens";
  std::vector<Scalar> scalars = {
      {"train/loss", step.loss},
      {"train/norm", step.grad_norm},
      {"train/lr", step.lr},
      {has_tokens ? "train/tokens_per_second" : "train/examples_per_second", step.tokens_per_second},
      {"memory/bytes", static_cast<double>(step.memory_bytes)},
      {"memory/peak_bytes", static_cast<double>(step.peak_memory_bytes)}};
  if (step.accuracy) scalars.push_back({"train/accuracy", *step.accuracy});
  return scalars;
}

std::vector<Scalar> scalars_of(const EvalMetrics& evaluation) {
  std::vector<Scalar> scalars = {{"eval/loss", evaluation.loss}};
  if (evaluation.perplexity) scalars.push_back({"eval/perplexity", *evaluation.perplexity});
  if (evaluation.accuracy) scalars.push_back({"eval/accuracy", *evaluation.accuracy});
  return scalars;
}

/// Ranks with equal programs are drawn once.
size_t num_drawn_actions(const JobPrograms& programs) {
  size_t num_actions = 0;
  for (const auto& [rank, members] : programs.classes.members())
    num_actions += programs.of(rank).steps[0].actions.size();
  return num_actions;
}

/// What is known about the run before it begins.
struct PlanFiles {
  std::string text, json, drawing;
};

PlanFiles plan_files(const Job& job, const JobPrograms& programs) {
  const PlanReport report = plan_report(job, programs, -1, Log(LogLevel::off));
  PlanFiles files = {plan_text(report), plan_json(report) + "\n", ""};
  if (num_drawn_actions(programs) > kMaxDrawnActions) return files;
  const StepCost cost;  // measuring the machine would disturb its ranks
  const Simulation simulation = cost.simulate_step(job.mesh, programs);
  files.drawing = step_svg(job.mesh, programs, {simulation, cost.source(), cost.caveat()});
  return files;
}

}  // namespace

struct RankRecord::State {
  State(std::string in_folder, int of_rank, const Log& warn)
      : folder(std::move(in_folder)), rank(of_rank), warnings(warn) {}

  /// Passes each flushed text to the log.
  class LineBuffer : public std::stringbuf {
   public:
    explicit LineBuffer(State& state) : state_(state) {}

   private:
    int sync() override {
      state_.add_to_log(str());
      str("");
      return 0;
    }
    State& state_;
  };

  std::string path(std::string_view file) const { return (std::filesystem::path(folder) / file).string(); }

  void add_to_log(std::string text) {
    const std::lock_guard lock(mutex);
    if (writer)
      writer->append(log_file, std::move(text));
    else if (early.size() + text.size() <= kMaxEarlyBytes)
      early += text;
  }

  void note(const std::string& text) { add_to_log(concat(time_text(), " note: ", printable(text), "\n")); }

  /// Creates the folder and this rank's files. Throws UNAVAILABLE when it cannot be made or written, or another run
  /// writes into it; what else cannot be written is missing in the record.
  void begin(const Job& job, int num_threads, RunMetrics run) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw Error(TSR_E_UNAVAILABLE, concat("--out ", folder, " cannot be made: ", error.message()));
    if (const std::string obstacle = obstacle_to_record(folder); !obstacle.empty())
      throw Error(TSR_E_UNAVAILABLE, obstacle);
    // Before any file is opened: a second run must not append to those of the first.
    if (rank == 0) {
      folder_lock.emplace("--out", folder, "record.lock");
      if (job.config.resume.empty() && has_record(folder))  // of a run that was over before this one had the lock
        throw Error(TSR_E_UNAVAILABLE, concat("--out ", folder,
                                              " has the record of another run by now; give another folder, or continue "
                                              "that run with --resume"));
    }
    auto new_writer = std::make_unique<BackgroundWriter>("--out " + folder, warnings);
    const int log = new_writer->open(path(log_file_name(rank)));
    const auto environment = run_environment();
    {
      const std::lock_guard lock(mutex);
      new_writer->append(log, concat(launcher_log, time_text(), " note: rank ", rank, " of ", job.mesh.num_ranks(),
                                     kBegins, ::getpid(), " on ", environment.empty() ? "" : environment[0].second,
                                     "\n", std::exchange(early, "")));
      log_file = log;
      writer = std::move(new_writer);
    }
    if (rank != 0) return;
    run.version = TESSERA_VERSION;
    run.environment = environment;
    begin_run(job, num_threads, run);
  }

  /// What fails is missing in the record, and the run goes on.
  void attempt(const std::function<void()>& write) {
    try {
      write();
    } catch (const std::exception& error) {
      writer->warn(sentence_of(error));
    }
  }

  void write_plan(const PlanFiles& files) {
    write_durably(path(kPlanText), files.text);
    write_durably(path(kPlanJson), files.json);
    if (!files.drawing.empty())
      write_durably(path(kStepDrawing), files.drawing);
    else
      std::filesystem::remove(path(kStepDrawing));
  }

  void begin_run(const Job& job, int num_threads, const RunMetrics& run) {
    const std::string settings = resolved_config(job, num_threads);
    attempt([&] {
      if (const std::string doubt = doubt_of_record(folder, job.config.resume); !doubt.empty()) warnings.warning(doubt);
    });
    if (const std::string flag = flag_not_in_utf8(job.config, FlagSet::train); !flag.empty())
      warnings.warning("--out ", folder, ": ", kConfigFile, " cannot hold the value of --", flag,
                       ", which is not UTF-8, so --config cannot repeat this run from it; rename what has that name");
    attempt([&] { write_config(folder, settings); });
    const PlanFiles files = std::exchange(plan, std::nullopt).value();
    attempt([&] { write_plan(files); });
    attempt([&] { remove_other_metrics(folder); });
    name = run.run;
    metrics_file = writer->open(path(kMetricsFile));
    event_file = writer->open(path(new_event_file_name(folder, wall_time())));
    writer->append(metrics_file, to_json_line(run) + "\n");
    writer->append(event_file, version_event(wall_time()) + start_event(wall_time(), run.resumed_step + 1));
  }

  void add_step(const StepMetrics& step) {
    last_step = step.step;
    if (rank == 0) {
      writer->append(metrics_file, to_json_line(step, name) + "\n");
      writer->append(event_file, scalars_event(wall_time(), step.step, scalars_of(step)));
      return;
    }
    if (Clock::now() < next_note) return;
    next_note = Clock::now() + kNoteEvery;
    note(format("step %lld, %.1f ms, memory ", static_cast<long long>(step.step), step.step_ms) +
         human_bytes(static_cast<uint64_t>(step.memory_bytes)));
  }

  void add_evaluation(const EvalMetrics& evaluation) {
    if (rank != 0) return;
    writer->append(metrics_file, to_json_line(evaluation, name) + "\n");
    writer->append(event_file, scalars_event(wall_time(), evaluation.after_step, scalars_of(evaluation)));
  }

  void add_save(const SaveMetrics& save) {
    if (rank == 0) writer->append(metrics_file, to_json_line(save, name) + "\n");
  }

  const std::string folder;
  const int rank;
  const Log warnings;
  LineBuffer buffer{*this};
  std::ostream stream{&buffer};

  std::string launcher_log;               // of the rank's own thread
  std::optional<FolderLock> folder_lock;  // of rank 0, until the run ends

  std::mutex mutex;
  std::string early;                         // guarded by mutex: the log before there is a file
  std::unique_ptr<BackgroundWriter> writer;  // guarded by mutex until the run begins
  int log_file = 0;                          // guarded by mutex

  // Of the rank's own thread.
  std::optional<PlanFiles> plan;
  std::string name;
  int metrics_file = 0, event_file = 0;
  int64_t last_step = 0;
  Clock::time_point next_note;
};

RankRecord::RankRecord(std::string folder, int rank, const Log& warnings) {
  if (!folder.empty()) state_ = std::make_shared<State>(std::move(folder), rank, warnings);
}

RankRecord::~RankRecord() = default;

std::ostream& RankRecord::log_stream() {
  return state_->stream;
}

void RankRecord::note(const std::string& text) {
  if (state_) state_->note(text);
}

std::string RankRecord::take_log() {
  if (!state_) return "";
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->early, "");
}

void RankRecord::begin_with(std::string text) {
  if (state_) state_->launcher_log = std::move(text);
}

void RankRecord::append_to_log() {
  const std::string rest = take_log();
  if (rest.empty()) return;
  const std::string path = state_->path(log_file_name(0));
  if (!std::filesystem::is_regular_file(path)) return;
  try {
    BackgroundWriter writer("--out " + state_->folder, state_->warnings);
    writer.append(writer.open(path), rest);
  } catch (const Error& error) {
    state_->warnings.warning(error.what());
  }
}

void RankRecord::observe(const Job& job, int num_threads, RankObserver& observer) {
  if (!state_) return;
  const auto state = state_;
  observer.on_planned = [state, &job, inner = observer.on_planned](const JobPrograms& programs) {
    inner(programs);
    state->plan = plan_files(job, programs);
  };
  observer.on_start = [state, &job, num_threads, inner = observer.on_start](const RunMetrics& run) {
    state->begin(job, num_threads, run);
    inner(run);
  };
  observer.on_step = [state, inner = observer.on_step](const StepMetrics& step) {
    inner(step);
    state->add_step(step);
  };
  observer.on_eval = [state, inner = observer.on_eval](const EvalMetrics& evaluation) {
    inner(evaluation);
    state->add_evaluation(evaluation);
  };
  observer.on_save = [state, inner = observer.on_save](const SaveMetrics& save) {
    inner(save);
    state->add_save(save);
  };
  observer.on_end = [state, inner = observer.on_end](RankRuntime& runtime) {
    inner(runtime);
    if (state->rank != 0) state->note(concat("ends after step ", state->last_step));
  };
}

}  // namespace tessera::host
