// What rank 0 logs after the last step: one table of results.

#include <algorithm>

#include "base/concat.h"
#include "checkpoint/save_folder.h"
#include "plan/format.h"
#include "plan/job_plan.h"
#include "trace/summary_text.h"
#include "train/report/report.h"

namespace tessera::host {
namespace {

constexpr size_t kShownKinds = 6;

std::string bytes(int64_t num_bytes) {
  return human_bytes(static_cast<uint64_t>(num_bytes));
}

/// Decimal, as disks and links are rated.
std::string gigabytes_per_second(uint64_t num_bytes, double seconds) {
  return format("%.2f GB/s", seconds > 0 ? static_cast<double>(num_bytes) / seconds * 1e-9 : 0);
}

std::string at_rate(const TransferCounts& counts) {
  return concat(human_bytes(counts.num_bytes), " at ",
                gigabytes_per_second(counts.num_bytes, static_cast<double>(counts.busy_ns) * 1e-9));
}

/// The traffic of all steps, and its rate.
std::string moved_text(const Job& job, const MovedInRun& moved) {
  if (job.plugins.offload.empty()) return "";
  const MovedBytes& planned = moved.planned;
  return concat(human_bytes(planned.out_bytes), " out of device memory and ", human_bytes(planned.in_bytes),
                " in, in all steps of rank 0: ",
                gigabytes_per_second(planned.in_bytes + planned.out_bytes, moved.seconds), " over their whole time");
}

std::string files_text(const Job& job, const MovedInRun& moved) {
  if (job.plugins.offload.empty() || moved.read.num_bytes + moved.written.num_bytes == 0) return "";
  return concat("rank 0 read ", at_rate(moved.read), " and wrote ", at_rate(moved.written), " while it did so");
}

std::string of_process(const Job& job, const MeasuredMemory& m) {
  const auto added = [&](int64_t num_bytes) { return bytes(std::max<int64_t>(0, num_bytes - m.before_bytes)); };
  const int num_arenas = job.ranks_are_threads() ? job.mesh.num_ranks() : 1;
  return concat(bytes(m.peak_bytes), " at the peak of rank 0's process, ", added(m.peak_bytes),
                " of it since the arena was made", num_arenas > 1 ? concat(" for its ", num_arenas, " ranks") : "");
}

std::string of_device(const MeasuredMemory& m) {
  return concat(bytes(m.peak_bytes), " at the peak of rank 0's device, ", bytes(m.now_bytes), " of ",
                bytes(m.total_bytes), " now, by all processes");
}

std::string loss_text(const RunEnd& end) {
  if (!end.loss) return "";
  return concat(format("%.5f in the last step", *end.loss),
                end.smoothed_loss ? format(", %.4f smoothed", *end.smoothed_loss) : "");
}

std::string evaluation_text(const RunEnd& end) {
  if (!end.best_evaluation) return "";
  return concat(format("loss %.5f at best, after step ", end.best_evaluation->loss), end.best_evaluation->after_step);
}

std::string time_text(const TimeMeter& times) {
  const auto part = [](const char* name, double seconds) {
    return seconds > 0 ? concat(", ", name, " ", duration_text(seconds)) : "";
  };
  return concat(duration_text(times.seconds()), ": preparing ", duration_text(times.preparing()),
                part("steps", times.steps()), part("evaluation", times.evaluations()),
                part("checkpoints", times.saving()));
}

std::string step_text(const TimeMeter& times) {
  const StepDurations step = times.step_times();
  return step.median > 0 ? format("%.1f ms median, p10 %.1f, p90 %.1f", step.median, step.low, step.high) : "";
}

std::string rate_text(const Job& job, const TimeMeter& times) {
  const StepDurations step = times.step_times();
  if (step.median <= 0) return "";
  const auto rate = [&](double ms) { return static_cast<double>(job.tokens_per_step()) / ms * 1e3; };
  return format("%.0f median, p10 %.0f, p90 %.0f", rate(step.median), rate(step.high), rate(step.low));
}

/// The kinds of action that take the most time.
std::string actions_text(const std::optional<TimeUse>& use) {
  if (!use) return "";
  return concat(kinds_text(use->summary, kShownKinds), "; of rank 0 in ", counted(use->num_steps, "step"));
}

std::string planned_text(const RankRuntime& runtime) {
  const MemoryReport planned = largest_program(runtime.programs()).memory;
  return concat(human_bytes(planned.peak.total()), " at the peak (", class_list(planned.peak), "), ",
                human_bytes(planned.states.total()), " between steps");
}

/// Where the last one is; empty: there is none.
std::string checkpoint_text(const Job& job, const RunEnd& end) {
  const std::string saved = end.saved_step ? concat(job.config.save, "/", step_folder_name(end.saved_step)) : "";
  if (end.save_error.empty()) return saved;
  return concat("not written after step ", end.last_step,
                saved.empty() ? "" : concat("; the last good one is ", saved));
}

/// The table is of this run alone.
std::string own_steps_text(const RunEnd& end) {
  if (end.steps_before == 0) return "";
  const int64_t own = end.last_step - end.steps_before;
  return concat(", ", own == 0 ? "none" : std::to_string(own), " of them in this run");
}

std::string ending_text(const Job& job, const RunEnd& end) {
  if (!job.trains) return "done";
  if (end.why_stopped.empty()) return concat("done: ", counted(job.config.steps, "step"), own_steps_text(end));
  return concat("stopped after step ", end.last_step, " of ", job.config.steps, ", ", end.why_stopped, "; ",
                end.saved_step == end.last_step ? concat("continue it with --resume ", shell_word(job.config.save))
                : end.saved_step                ? concat("the last checkpoint is of step ", end.saved_step)
                                                : std::string("nothing was saved"));
}

}  // namespace

void report_evaluation(const Log& log, const EvalMetrics& result) {
  log.info("evaluation", result.after_step ? concat(" after step ", result.after_step) : "",
           format(": loss %.5f", result.loss),
           result.perplexity ? format(" | perplexity %.4g", *result.perplexity) : "",
           result.bits_per_byte ? format(" | %.4f bits per byte", *result.bits_per_byte) : "",
           result.accuracy ? format(" | accuracy %.2f %%", 100 * *result.accuracy) : "", " | ", result.num_items, " ",
           result.items, format(" | %.1f s", result.seconds));
}

std::string unsaved_text(const Job& job, const RunEnd& end) {
  return concat("the checkpoint after the last step, ", end.last_step, ", was not written: ", end.save_error, "; ",
                end.saved_step ? concat("the last good one is ", job.config.save, "/", step_folder_name(end.saved_step),
                                        "; continue it with --resume ", shell_word(job.config.save))
                               : concat("--save ", job.config.save, " holds no checkpoint of this run"));
}

std::vector<Row> end_rows(const Job& job, const RankRuntime& runtime, const RunEnd& end, const RunMeasured& measured) {
  const std::optional<TimeUse>& use = measured.time_use;
  return {
      {"loss", loss_text(end)},
      {"evaluation", job.trains ? evaluation_text(end) : ""},
      {"time", time_text(measured.times)},
      {"step", step_text(measured.times)},
      {concat(job.items(), "/s"), rate_text(job, measured.times)},
      {"time by action", actions_text(use)},
      {"communication", use ? overlap_text(use->summary.communication) : ""},
      {"copies", use ? overlap_text(use->summary.copies) : ""},
      {"memory planned", planned_text(runtime)},
      {"memory measured", measured.memory.total_bytes ? of_device(measured.memory) : of_process(job, measured.memory)},
      {"offload moved", moved_text(job, measured.moved)},
      {"offload files", files_text(job, measured.moved)},
      {"checkpoint", checkpoint_text(job, end)}};
}

void report_end(const Log& log, const Job& job, const RankRuntime& runtime, const RunEnd& end,
                const RunMeasured& measured) {
  log.info(table(ending_text(job, end), end_rows(job, runtime, end, measured), table_columns()));
}

}  // namespace tessera::host
