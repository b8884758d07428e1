#include "exec/executable.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "exec/step.h"
#include "tessera/error.hpp"

namespace tessera {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::microseconds kPause{50};  // between two looks at a gate
constexpr milliseconds kQuestion{1000};          // how often `cancelled` is asked
/// On one device errors pass to the streams that wait for what failed; to others, and from one device to the other,
/// only the host passes them on.
constexpr int64_t kPollMs = 10;
/// So many actions are issued behind a gate that is closed. A stream of CUDA takes about a thousand launches that
/// cannot run yet; then it blocks whoever issues the next, who could no more see that what the gate waits for has
/// failed.
constexpr size_t kMaxBehindGate = 128;
/// Libraries do what they do at first use before.
constexpr uint64_t kCapturedRun = 2;

/// False after `timeout_ms`; throws the stream's error.
bool is_done(const RankStream& stream, int64_t timeout_ms) {
  tsr_error err{};
  const tsr_status status = stream.api().stream_synchronize(stream.handle, timeout_ms, &err);
  if (status != TSR_IN_PROGRESS) check(status, err);
  return status != TSR_IN_PROGRESS;
}

void ask(const std::function<bool()>& cancelled) {
  if (cancelled()) throw Error(TSR_E_CANCELLED, "the run was stopped while a program was running");
}

}  // namespace

Executable::~Executable() = default;

/// A device may load a kernel at its first launch, and wait for all of its streams to do so: also for one that stands
/// at a gate. So all are launched before, in a graph that never runs; where that fails, they are loaded when they run.
void Executable::load_kernels() const {
  const Device& device = context_.device();
  if (!device.table<tsr_device_capture>(TSR_DEVICE_CAPTURE)) return;
  std::vector<RankStream> streams;
  std::ranges::copy_if(streams_, std::back_inserter(streams), [&](const RankStream& s) { return s.device == &device; });
  const auto launch_all = [this] {
    for (const auto& step : steps_)
      if (step->kind == Step::Kind::kernel)
        call(step->stream.api().launch, step->kernel, step->stream.handle, step->pointers.data(),
             step->pointers.size());
  };
  try {
    const Graph never_launched(device, streams, launch_all);
  } catch (const Error&) {
  }
}

void Executable::issue(Step& step) {
  const tsr_device_interface& api = step.stream.api();
  tsr_stream* const stream = step.stream.handle;
  for (tsr_event* event : step.waits)
    call(api.stream_wait, stream, event);
  for (Crossing* crossing : step.crossings)
    crossing->wait(step.stream);
  if (step.delayed) call(api.host_function, stream, &Delay::run, &step.delay);
  for (const Fill& fill : step.fills)
    call(api.fill, stream, fill.pointer, fill.byte, fill.num_bytes);
  switch (step.kind) {
    case Step::Kind::kernel:
      call(api.launch, step.kernel, stream, step.pointers.data(), step.pointers.size());
      break;
    case Step::Kind::copy:
      call(api.copy, stream, step.pointers[0], step.pointers[1], step.num_bytes);
      break;
    case Step::Kind::call:
      call(api.host_function, stream, &StrategyCall::run, &step.call);
      break;
    case Step::Kind::collective:
      call(context_.comms().api().submit, step.comm->comm, &step.collective);
      break;
    case Step::Kind::nothing:
      break;
  }
  for (const auto& guard : step.guards) {
    call(api.copy, stream, guard->seen.at(0), guard->begin, guard->seen.num_bytes());
    call(api.host_function, stream, &Guard::check, guard.get());
  }
  for (Watch& watch : step.watches) {
    call(api.copy, stream, watch.seen, watch.begin, watch.num_bytes());
    call(api.host_function, stream, &Watch::check, &watch);
  }
  if (step.record) call(api.event_record, step.record, stream);
  if (step.crossing) step.crossing->signal(step.stream);
}

void Executable::issue_all(const Cancelled& cancelled) {
  size_t standing = 0;  // the first action that may stand at a closed gate
  for (size_t i = 0; i < steps_.size(); ++i) {
    while (standing < i) {
      const Crossing* const gate = closed_gate(*steps_[standing]);
      if (gate && i - standing < kMaxBehindGate) break;
      if (gate)
        wait_until_open(*gate, cancelled);
      else
        ++standing;
    }
    issue(*steps_[i]);
  }
}

const Crossing* Executable::closed_gate(const Step& step) const {
  if (step.stream.device != &context_.device()) return nullptr;  // the host's streams take any number of actions
  const auto closed = std::ranges::find_if(step.crossings, [](const Crossing* gate) { return !gate->is_open(); });
  return closed == step.crossings.end() ? nullptr : *closed;
}

/// Throws what has failed meanwhile.
void Executable::wait_until_open(const Crossing& crossing, const Cancelled& cancelled) const {
  auto question = Clock::now() + kQuestion;
  while (!crossing.is_open()) {
    for (const RankStream& stream : streams_)
      is_done(stream, 0);
    context_.comms().check();
    std::this_thread::sleep_for(kPause);
    if (Clock::now() < question) continue;
    ask(cancelled);
    question += kQuestion;
  }
}

std::optional<size_t> Executable::first_not_finite() const {
  const size_t first = first_not_finite_;
  return first == kNone ? std::nullopt : std::optional(first);
}

void Executable::run(const Cancelled& cancelled) {
  if (streams_.empty()) return;
  first_not_finite_ = kNone;
  try {
    for (const auto& crossing : crossings_)
      crossing->begin_run();
    for (const auto& step : steps_)
      if (step->comm) step->collective.sequence = step->comm->num_collectives++;
    const bool is_step = program_.purpose == TSR_PURPOSE_STEP;
    if (++num_runs_ == kCapturedRun && is_step && context_.captures()) capture(cancelled);
    if (graph_)
      graph_->launch();
    else
      issue_all(cancelled);
    finish(cancelled);
  } catch (...) {
    stop_after_error();
    throw;
  }
}

void Executable::capture(const Cancelled& cancelled) {
  std::string why = obstacle_to_capture(context_, program_);
  const bool has_tried = why.empty();
  try {
    if (has_tried) graph_.emplace(context_.device(), streams_, [&] { issue_all(cancelled); });
  } catch (const Error& e) {
    why = e.what();
  }
  if (context_.graphs().all_agree(graph_.has_value())) return;
  if (graph_) why = "another rank's is not captured";
  graph_.reset();
  if (has_tried) context_.graphs().warn("the step is not captured as a graph, and runs without: " + why);
}

void Executable::finish(const Cancelled& cancelled) {
  const auto start = Clock::now();
  auto question = start + kQuestion;
  std::vector<RankStream> busy = streams_;
  for (;;) {
    int64_t timeout_ms = kPollMs;
    std::erase_if(busy, [&](const RankStream& stream) { return is_done(stream, std::exchange(timeout_ms, 0)); });
    context_.comms().check();  // also of work that has ended: not every stream can fail
    if (busy.empty()) break;
    if (graph_) check_deadline(start);
    if (Clock::now() < question) continue;
    ask(cancelled);
    question += kQuestion;
  }
  if (!graph_) longest_run_ = std::max(longest_run_, Clock::now() - start);
}

/// In a graph no collective starts a clock of its own.
void Executable::check_deadline(Clock::time_point start) const {
  const milliseconds timeout(context_.comms().timeout_ms(program_));
  if (context_.comms().empty() || Clock::now() - start < longest_run_ + timeout) return;
  throw Error(TSR_E_DEADLINE, "a step that runs as a graph has taken " + std::to_string(timeout.count()) +
                                  " ms (--timeout-ms) longer than without: does another rank still run?");
}

void Executable::stop_after_error() {
  context_.comms().abort();
  for (const auto& crossing : crossings_)
    crossing->release();
  context_.close_streams();  // kernels end by themselves, aborted communication within two seconds
}

}  // namespace tessera
