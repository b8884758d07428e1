// Copies between memories are those of the program, so they are known from the plan. What reaches files is counted by
// the store, in whole blocks: a difference of its counters, read between steps, when nothing is in flight.

#include "train/move_meter.h"

namespace tessera::host {
namespace {

/// The counts since `before`, which becomes `now`.
TransferCounts since(TransferCounts& before, const TransferCounts& now) {
  const TransferCounts step = {now.num_bytes - before.num_bytes, now.num_requests - before.num_requests,
                               now.busy_ns - before.busy_ns};
  before = now;
  return step;
}

void add(TransferCounts& sum, const TransferCounts& step) {
  sum.num_bytes += step.num_bytes;
  sum.num_requests += step.num_requests;
  sum.busy_ns += step.busy_ns;
}

}  // namespace

MoveMeter::MoveMeter(const Job& job, const RankRuntime& runtime) : files_(runtime.files()) {
  if (!job.plugins.offload.empty())
    for (const Program& step : runtime.programs().steps)
      planned_.push_back(moved_in(step).total());
  if (!files_) return;
  read_before_ = files_->read_counts();
  written_before_ = files_->write_counts();
}

void MoveMeter::measure(StepMetrics& line) {
  if (planned_.empty()) return;
  const MovedBytes& moved = planned_[static_cast<size_t>(line.step - 1) % planned_.size()];
  line.fetched_bytes = static_cast<int64_t>(moved.in_bytes);
  line.evicted_bytes = static_cast<int64_t>(moved.out_bytes);
  in_run_.planned.in_bytes += moved.in_bytes;
  in_run_.planned.out_bytes += moved.out_bytes;
  in_run_.seconds += line.step_ms * 1e-3;
  if (files_) measure_files(line);
}

void MoveMeter::measure_files(StepMetrics& line) {
  const TransferCounts read = since(read_before_, files_->read_counts());
  const TransferCounts written = since(written_before_, files_->write_counts());
  line.file_read_bytes = static_cast<int64_t>(read.num_bytes);
  line.file_written_bytes = static_cast<int64_t>(written.num_bytes);
  line.file_busy_ms = static_cast<double>(read.busy_ns + written.busy_ns) * 1e-6;
  add(in_run_.read, read);
  add(in_run_.written, written);
}

}  // namespace tessera::host
