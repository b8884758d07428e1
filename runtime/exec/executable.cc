// Runs a prepared program. One thread issues all actions in list order, and the streams do the rest: a compute action
// is a launch, a wait is an event, and the thread never blocks on either. List order is safe, since every wait points
// to an action that is further up and so has been issued. The thread then waits for all streams.
//
// Streams carry errors (decision 0004): work after a failure is skipped, and a stream that waits for a failed event
// fails too. So whichever stream the thread looks at, it finds the error, within a poll. After an error all
// communicators are aborted at once, which ends what waits for other ranks, and the rank runs nothing more.
//
// From its second run on, a step may be one graph (graph.h), which is issued by a single call.

#include "exec/executable.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "exec/command.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::microseconds kPause{50};  // between two looks at a gate
constexpr milliseconds kQuestion{1000};          // how often `cancelled` is asked
/// On one device errors pass to the streams that wait for what failed; to others, and from one device to the other,
/// only the host passes them on.
constexpr int64_t kPollMs = 10;
/// Maximum number of actions that are issued after one that waits at a closed gate. A CUDA stream takes about a
/// thousand pending launches and then blocks the issuing thread, which could no longer notice that what the gate waits
/// for has failed.
constexpr size_t kMaxBehindGate = 128;
/// The second run is captured: libraries initialise lazily in the first.
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

/// CUDA may load a kernel lazily at its first launch, and synchronise all streams to do so, which deadlocks with a
/// stream that waits at a gate. So all kernels are captured up front into a graph that is never launched. If that
/// fails, they are loaded when they first run.
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
  for (CrossDeviceSync* crossing : step.crossings)
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
  size_t standing = 0;  // the first action that may be waiting at a closed gate
  for (size_t i = 0; i < steps_.size(); ++i) {
    while (standing < i) {
      const CrossDeviceSync* const gate = closed_gate(*steps_[standing]);
      if (gate && i - standing < kMaxBehindGate) break;
      if (gate)
        wait_until_open(*gate, cancelled);
      else
        ++standing;
    }
    issue(*steps_[i]);
  }
}

const CrossDeviceSync* Executable::closed_gate(const Step& step) const {
  if (step.stream.device != &context_.device()) return nullptr;  // the host's streams take any number of actions
  const auto closed =
      std::ranges::find_if(step.crossings, [](const CrossDeviceSync* gate) { return !gate->is_open(); });
  return closed == step.crossings.end() ? nullptr : *closed;
}

/// Throws what has failed meanwhile.
void Executable::wait_until_open(const CrossDeviceSync& crossing, const Cancelled& cancelled) const {
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
    // Waits for the first stream only; the others are asked whether they are done. Errors reach every stream that
    // depends on the failed one.
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

/// In a graph no collective starts a clock of its own, so the whole step is timed against the longest one without a
/// graph.
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

}  // namespace tessera::host
