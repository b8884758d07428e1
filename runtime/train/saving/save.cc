// Without --save-async a checkpoint is written between two steps, from where the state is. With it, steps wait only for
// a copy of the state, and for most of that not even:
//
//     control thread   step 10 | begin the copy | step 11: forward, backward | copy done? | update | step 12 ...
//     device, host               copy ---------------------------->
//     thread of a save           meet; write what is copied; sync; meet; rank 0: rename; meet
//
// since nothing but the update of the next step changes what is saved (exec/state_copy.h). The ranks of a save meet on
// its thread, so no step has a message more; each control thread learns of the end by itself, between two steps. So
// what depends on the outcome of a save is decided only when that is known (is_best, the next save, the end of the
// run).
//
// In sum, with B bytes owned by a rank: host memory B more, B bytes copied once more.

#include "train/saving/save.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/concat.h"
#include "checkpoint/save_folder.h"
#include "config/text_values.h"
#include "guard/process_state.h"
#include "tessera/error.hpp"
#include "train/evaluator.h"
#include "train/saving/own_folder.h"
#include "train/saving/resume.h"

namespace tessera::host {
namespace {

/// By its exponent; `floats` need not be aligned.
bool all_finite(std::span<const std::byte> floats) {
  constexpr uint32_t kExponent = 0x7f800000;
  bool are_finite = true;
  for (size_t at = 0; at < floats.size(); at += sizeof(uint32_t)) {
    uint32_t bits;
    std::memcpy(&bits, floats.data() + at, sizeof bits);
    are_finite &= (bits & kExponent) != kExponent;
  }
  return are_finite;
}

}  // namespace

CheckpointSaver::CheckpointSaver(const Job& job, const RunData& data, const RankInfo& info,
                                 const RankObserver& observer, RankRuntime& runtime, const RunState& start,
                                 const Log& log)
    : job_(job),
      info_(info),
      observer_(observer),
      runtime_(runtime),
      log_(log),
      last_saved_(resumes_in_its_folder(job.config) ? start.step : 0),
      best_step_(start.best_step),
      best_loss_(start.best_loss),
      best_of_(start.best_of) {
  if (job.config.save.empty()) return;
  if (job.config.save_best) begin_best(evaluated_text(job, *data.evaluation));
  const Program& program = runtime.programs().first();
  writer_ = std::make_unique<CheckpointWriter>(job, *data.training, info, log, held_tensors(program));
  writer_->check_folder(resumes_in_its_folder(job.config) ? start.best_step : 0);
  if (job.config.save_async) reserve_copy(program);
}

/// A loss of other evaluation data says nothing about this run's. What `best` names stays until there is a new one.
void CheckpointSaver::begin_best(std::string evaluated) {
  if (best_step_ != 0 && !best_of_.empty() && best_of_ != evaluated) {
    log_.warning("the lowest loss so far, ", format("%.5f", best_loss_), " after step ", best_step_, ", is of ",
                 best_of_, ", and this run evaluates ", evaluated, ": --save-best begins anew");
    best_step_ = 0;
  }
  evaluated_ = std::move(evaluated);
}

CheckpointSaver::~CheckpointSaver() {
  try {
    finish();
  } catch (const std::exception&) {  // the run is failing: what it fails with is known
  }
}

void CheckpointSaver::reserve_copy(const Program& program) {
  std::vector<StatePlace> places;
  uint64_t address = 0;
  for (const HeldTensor& tensor : writer_->held()) {
    addresses_.push_back(address);
    if (!tensor.is_owner) continue;
    places.insert(places.end(), tensor.places.begin(), tensor.places.end());
    address += num_bytes_of(program, tensor.places);
  }
  copy_ = &runtime_.reserve_copy(places);
}

bool CheckpointSaver::is_due(int64_t step) const {
  return is_on() && job_.config.save_every > 0 && step % job_.config.save_every == 0;
}

bool CheckpointSaver::is_best(double loss) {
  if (!is_on() || !job_.config.save_best || !std::isfinite(loss)) return false;
  if (under_way_ && under_way_->is_best) finish();  // all ranks must know whether it succeeded
  return best_step_ == 0 || loss < best_loss_;
}

int64_t CheckpointSaver::last_saved() const {
  std::error_code unknown;
  const auto status =
      std::filesystem::symlink_status(concat(job_.config.save, "/", step_folder_name(last_saved_)), unknown);
  return status.type() == std::filesystem::file_type::not_found ? 0 : last_saved_;
}

RunState CheckpointSaver::complete(RunState state, std::optional<double> best_loss) {
  state.optimizer_step = runtime_.optimizer_step();
  state.best_step = best_loss ? state.step : best_step_;
  state.best_loss = best_loss.value_or(best_loss_);
  state.best_of = best_loss ? evaluated_ : best_of_;
  return state;
}

void CheckpointSaver::save(RunState state, std::optional<double> best_loss) {
  require_paths_of_program();
  wait_for_previous(state.step);
  const auto start = Clock::now();
  state = complete(state, best_loss);
  if (is_async())
    begin_async(state, best_loss.has_value(), start);
  else
    report(write_now(state, best_loss.has_value(), start), false);
}

std::string CheckpointSaver::save_last(RunState state, std::optional<double> best_loss) {
  require_paths_of_program();
  finish(false);
  const SaveMetrics metrics = write_now(complete(state, best_loss), best_loss.has_value(), Clock::now());
  report(metrics, true);
  return metrics.error;
}

void CheckpointSaver::poll() {
  if (under_way_ && under_way_->end.wait_for(std::chrono::seconds(0)) == std::future_status::ready) finish();
}

void CheckpointSaver::wait_for_previous(int64_t step) {
  poll();
  if (!under_way_) return;
  if (!std::exchange(has_warned_of_waiting_, true))
    log_.warning("the checkpoint of step ", under_way_->state.step, " is still being written, and the one of step ",
                 step, " is due: steps wait for it, now and whenever this happens again; raise --save-every, or save ",
                 "to a faster disk");
  finish();
}

void CheckpointSaver::begin_async(const RunState& state, bool is_best, Clock::time_point start) {
  copy_->begin();
  const auto write = [this, state, is_best, start] {
    const auto read = [this](const HeldTensor& tensor, uint64_t begin, uint64_t end, std::span<std::byte>) {
      return copied(tensor, begin, end);
    };
    UnderWay::End end{writer_->write(state, is_best, read), 0};
    end.ms = ms_since(start);
    return end;
  };
  UnderWay under_way{state, is_best, 0, {}};
  try {
    under_way.end = std::async(std::launch::async, write);
  } catch (const std::system_error&) {  // no thread: the steps wait
    copy_->finish();
    under_way.end = std::async(std::launch::deferred, write);
    under_way.end.wait();
  }
  under_way.pause_ms = ms_since(start);
  under_way_ = std::move(under_way);
}

void CheckpointSaver::finish(bool steps_wait) {
  if (!under_way_) return;
  copy_->finish();
  UnderWay done = std::move(*under_way_);
  under_way_.reset();
  const auto start = Clock::now();
  const UnderWay::End end = done.end.get();
  const double waited_ms = ms_since(start);
  SaveMetrics metrics = settle(done.state, done.is_best, end.written);
  metrics.ms = end.ms;
  metrics.pause_ms = done.pause_ms + copy_->waited_ms() + (steps_wait ? waited_ms : 0);
  report(metrics, false);
}

SaveMetrics CheckpointSaver::write_now(const RunState& state, bool is_best, Clock::time_point start) {
  const auto read = [&](const HeldTensor& tensor, uint64_t begin, uint64_t end, std::span<std::byte> piece) {
    return fetched(tensor, begin, end, piece);
  };
  SaveMetrics metrics = settle(state, is_best, writer_->write(state, is_best, read));
  metrics.ms = metrics.pause_ms = ms_since(start);
  return metrics;
}

/// What the outcome changes here, the same on all ranks.
SaveMetrics CheckpointSaver::settle(const RunState& state, bool is_best, const WrittenCheckpoint& written) {
  SaveMetrics metrics;
  metrics.step = state.step;
  metrics.error = written.error;
  if (!written.error.empty()) return metrics;
  metrics.num_bytes = static_cast<int64_t>(written.num_bytes);
  last_saved_ = state.step;
  if (is_best) best_step_ = state.best_step, best_loss_ = state.best_loss, best_of_ = state.best_of;
  return metrics;
}

/// Where a tensor is in the copy, once it is there. A bad step after this one would end the run, and this one's
/// parameters may be why: they must not replace a good checkpoint.
std::span<const std::byte> CheckpointSaver::copied(const HeldTensor& tensor, uint64_t begin, uint64_t end) {
  copy_->wait();
  const uint64_t element = TSR_NUM_BYTES(tensor.dtype, 1);
  const uint64_t address = addresses_[static_cast<size_t>(&tensor - writer_->held().data())];
  const auto bytes = copy_->bytes().subspan(address + begin * element, (end - begin) * element);
  if (tensor.parameter >= 0 && !tensor.is_moment && tensor.dtype == TSR_F32 && !all_finite(bytes))
    throw Error(TSR_E_FAILED_PRECONDITION, concat("an element of ", tensor.name, " is not finite"));
  return bytes;
}

/// From where it is, between two steps.
std::span<const std::byte> CheckpointSaver::fetched(const HeldTensor& tensor, uint64_t begin, uint64_t end,
                                                    std::span<std::byte> piece) {
  const Program& program = runtime_.programs().first();
  const uint64_t element = TSR_NUM_BYTES(tensor.dtype, 1);
  for_places(tensor, begin, end, [&](const StatePlace& place, uint64_t before) {
    runtime_.read_state(program.buffer(place.buffer), place.offset,
                        piece.subspan(before * element, place.num_elements * element));
  });
  return piece;
}

void CheckpointSaver::report(const SaveMetrics& metrics, bool is_last) const {
  observer_.on_save(metrics);
  if (metrics.error.empty()) {
    const auto ms = [](double value) { return static_cast<int64_t>(std::ceil(value)); };
    log_.info("saved ", job_.config.save, "/", step_folder_name(metrics.step), ": ",
              human_bytes(static_cast<uint64_t>(metrics.num_bytes)), " in ", ms(metrics.ms), " ms",
              is_async() ? concat(", of which steps waited ", ms(metrics.pause_ms)) : "");
  } else if (!is_last) {  // after the last step it is what the run ends with
    const int64_t last = last_saved();
    log_.warning(
        "step ", metrics.step, " was not saved: ", metrics.error, "; training continues, and ",
        last ? concat("the last checkpoint is of step ", last) : std::string("no checkpoint of this run is there"));
  }
}

}  // namespace tessera::host
