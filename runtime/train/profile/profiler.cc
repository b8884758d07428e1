// Only times are recorded (exec/record/step_times.h); names and matches of actions are added when a trace is made. The
// ranks then compare their clocks, every rank makes its events in the time of rank 0, and rank 0 collects them through
// the store, in compressed pieces.
//
// Samples: one step in 16, at most 16 of them; then every second one is dropped, and the interval doubles. So a run of
// any length has 8 to 16 samples spread over it, in constant memory. Where a step of 177 actions takes 2.4 ms, a
// recorded one takes about 0.15 ms longer, so sampling costs 0.4 %; of longer steps less.

#include "train/profile/profiler.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/concat.h"
#include "base/output_file.h"
#include "tessera/error.hpp"
#include "trace/gzip.h"
#include "trace/write_trace.h"
#include "train/profile/clocks.h"

namespace tessera::host {
namespace {

constexpr int64_t kFirstSample = 2;  // the first step of a run warms up
constexpr int64_t kFirstInterval = 16;
constexpr size_t kMaxSamples = 16;
constexpr size_t kPieceBytes = size_t{4} << 20;
constexpr size_t kMaxEventBytes = size_t{1} << 29;

std::string events_key(int rank) {
  return concat("trace/", rank);
}

void send(KeyValueStore& store, int rank, const std::string& events) {
  const std::string bytes = gzip(events);
  const size_t num_pieces = (bytes.size() + kPieceBytes - 1) / kPieceBytes;
  for (size_t i = 0; i < num_pieces; ++i)
    store.set(concat(events_key(rank), '/', i), bytes.substr(i * kPieceBytes, kPieceBytes));
  store.set(events_key(rank), std::to_string(num_pieces));
}

std::string receive(KeyValueStore& store, int rank, int64_t timeout_ms) {
  const auto num_pieces = std::stoull(store.get(events_key(rank), timeout_ms));
  std::string bytes;
  for (size_t i = 0; i < num_pieces; ++i) {
    const std::string piece = concat(events_key(rank), '/', i);
    bytes += store.get(piece, timeout_ms);
    store.set(piece, "");  // the store keeps keys for ever
  }
  bool is_whole = false;
  std::string events = gunzip(bytes, kMaxEventBytes, is_whole);
  if (!is_whole)
    throw Error(TSR_E_RESOURCE_EXHAUSTED, concat("--profile: the events of rank ", rank, " are more than ",
                                                 human_bytes(kMaxEventBytes), "; profile fewer steps"));
  return events;
}

}  // namespace

Profiler::Profiler(const Job& job, const RankInfo& info, const RankObserver& observer, const RankRuntime& runtime,
                   int64_t steps_done, const Log& first_log)
    : job_(job),
      info_(info),
      observer_(observer),
      runtime_(runtime),
      first_log_(first_log),
      samples_(info.rank == 0 && job.computes_on_host()),
      next_sample_(steps_done + kFirstSample),
      interval_(kFirstInterval),
      is_done_before_(job.config.profile && job.config.profile->last <= steps_done) {
  // Not an error: a job that is started again, by whatever starts jobs again, has the flags of its first start.
  if (is_done_before_)
    first_log.warning("--profile ", print_steps(*job.config.profile), " is of steps that were done before this run, ",
                      "which continues after step ", steps_done, ": it writes no trace");
}

bool Profiler::is_profiled(int64_t step) const {
  const auto& profile = job_.config.profile;
  return profile && step >= profile->first && step <= profile->last;
}

StepTimes* Profiler::before_step(int64_t step) {
  if (!is_profiled(step) && !(samples_ && step == next_sample_)) return nullptr;
  return &now_.emplace(Recorded{step, {}}).times;
}

void Profiler::after_step(int64_t step) {
  if (!now_) return;
  if (samples_ && step == next_sample_) keep_sample();
  if (is_profiled(step)) {
    profiled_.push_back(std::move(*now_));
    if (step == job_.config.profile->last) write();
  }
  now_.reset();
}

void Profiler::keep_sample() {
  sampled_.push_back(*now_);
  if (sampled_.size() == kMaxSamples) {
    for (size_t i = 1; i < kMaxSamples / 2; ++i)  // the first stays: a move to itself would lose it
      sampled_[i] = std::move(sampled_[2 * i]);
    sampled_.resize(kMaxSamples / 2);
    interval_ *= 2;
  }
  next_sample_ += interval_;
}

void Profiler::end() {
  if (!profiled_.empty())
    write();
  else if (job_.config.profile && !is_written_ && !is_done_before_)
    first_log_.warning("--profile ", print_steps(*job_.config.profile),
                       ": the run ended before these steps, so no trace was written");
}

const StepEvents& Profiler::events_of(int64_t step) const {
  const auto& steps = runtime_.programs().steps;
  const size_t variant = static_cast<size_t>(step - 1) % steps.size();
  return events_.try_emplace(variant, steps[variant], info_.rank).first->second;
}

Trace Profiler::trace_of(const std::vector<Recorded>& steps) const {
  Trace trace;
  trace.job = concat(job_.config.model, " on ", mesh_text(job_));
  trace.num_ranks = job_.mesh.num_ranks();
  for (const Recorded& recorded : steps)
    events_of(recorded.step).add_to(trace, recorded.step, [&](size_t i) { return recorded.times.actions[i]; });
  return trace;
}

void Profiler::write() {
  const int64_t timeout_ms = job_.config.timeout_ms;
  const ClockOffset clock = compare_clocks(*info_.store, info_.rank, job_.mesh.num_ranks(), timeout_ms, own_clock());
  const int64_t origin_ns = agree_on_origin(profiled_.front().times.begin_ns + clock.offset_ns) - clock.offset_ns;
  Trace trace = trace_of(profiled_);
  trace.clock_error_ns = clock.error_ns;
  profiled_.clear();
  is_written_ = true;
  const std::string events = trace_events(trace, origin_ns);
  if (info_.rank > 0) return send(*info_.store, info_.rank, events);
  trace.actions.clear();
  gather(trace, events);
}

/// The earliest begin of all ranks, in the time of rank 0.
int64_t Profiler::agree_on_origin(int64_t begin_ns) const {
  KeyValueStore& store = *info_.store;
  const int64_t timeout_ms = job_.config.timeout_ms;
  const std::string begins = "trace/begin/", origin = "trace/origin";
  store.set(concat(begins, info_.rank), std::to_string(begin_ns));
  if (info_.rank > 0) return std::stoll(store.get(origin, timeout_ms));
  for (int rank = 1; rank < job_.mesh.num_ranks(); ++rank)
    begin_ns = std::min<int64_t>(begin_ns, std::stoll(store.get(concat(begins, rank), timeout_ms)));
  store.set(origin, std::to_string(begin_ns));
  return begin_ns;
}

/// The steps are worth more than their times, so nothing that fails here ends the run. A rank that is gone does, when
/// it is next waited for.
void Profiler::gather(const Trace& header, const std::string& own_events) {
  try {
    std::vector<std::string> events{own_events};
    for (int rank = 1; rank < header.num_ranks; ++rank)
      events.push_back(receive(*info_.store, rank, job_.config.timeout_ms));
    observer_.on_trace(trace_file(header, events));
  } catch (const std::exception& error) {
    return first_log_.warning("no trace: ", sentence_of(error), "; the run continues");
  }
  const std::string path = trace_path(job_.config);
  if (!is_standard_output(path))
    first_log_.info("trace: --profile ", print_steps(*job_.config.profile), " is in ", path, "; tessera trace ",
                    shell_word(path), " summarizes it");
}

std::optional<TimeUse> Profiler::time_use() const {
  if (sampled_.empty()) return std::nullopt;
  return TimeUse{static_cast<int64_t>(sampled_.size()), summarize(trace_of(sampled_))};
}

}  // namespace tessera::host
