// Runs a prepared program. One thread issues all actions in list order, and the streams do the rest: a compute action
// is a launch, a wait is an event, and the thread never blocks on either. List order is safe, since every wait is for
// an earlier action, which has been issued. The thread then waits for all streams.
//
// Streams carry errors (decision 0004): work after a failure is skipped, and a stream that waits for a failed event
// fails too, so polling any one stream finds the error. After an error all communicators are aborted at once, which
// ends the waits for other ranks, and the rank runs nothing more.
//
// From its second run on, a step may be one graph (graph.h), which is issued by a single call.

#include "exec/executable.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "exec/command_builder.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::microseconds kPause{50};  // between two polls of a semaphore
constexpr milliseconds kQuestion{1000};          // between two calls of `cancelled`
/// Interval of polling. On one device errors reach the streams that wait for the failed work; other streams, and those
/// of the other device, learn of them only from the host.
constexpr int64_t kPollMs = 10;
/// A CUDA stream blocks the issuing thread after about this many pending launches, and a blocked thread cannot notice
/// that the action that another waits for has failed.
constexpr size_t kMaxPendingLaunches = 1000;
/// Far more than actions make on average: most make a few, a loss some six for each chunk of logits (40 at GPT-2's size
/// and a batch of 32), attention in parts as many. The host cannot count them.
constexpr size_t kMaxLaunchesOfAction = 60;
/// Maximum number of actions that are issued after one that waits at an unsignaled semaphore.
constexpr size_t kMaxAfterWait = kMaxPendingLaunches / kMaxLaunchesOfAction;

/// False after `timeout_ms`; throws the stream's error.
bool is_done(const RankStream& stream, int64_t timeout_ms) {
  tsr_error err{};
  const auto synchronize = stream.api().stream_synchronize;
  const tsr_status status = enter(synchronize, stream.handle, timeout_ms, &err);
  if (status != TSR_IN_PROGRESS && status != TSR_OK) check_call(status, err, address_of(synchronize));
  return status != TSR_IN_PROGRESS;
}

void ask(const std::function<bool()>& cancelled) {
  if (cancelled()) throw Error(TSR_E_CANCELLED, "the run was stopped while a program was running");
}

}  // namespace

Executable::Executable(const Program& program, const MemoryPlan& memory, ExecutionContext& context)
    : program_(program),
      memory_(memory),
      context_(context),
      commands_(build_commands(program, memory, context, first_not_finite_)),
      progress_(context.device()) {
  const auto is_collective = [](const auto& command) { return command->comm != nullptr; };
  if (!commands_.syncs.empty() || std::ranges::any_of(commands_.list, is_collective)) load_kernels();
}

/// CUDA may load a kernel lazily at its first launch, and synchronize all streams to do so, which deadlocks with a
/// stream that waits for something else: at a semaphore, or in a collective for a rank that cannot come before this one
/// has gone on. So all kernels are captured up front into a graph that is never launched. If that fails, they are
/// loaded when they first run.
void Executable::load_kernels() const {
  const Device& device = context_.device();
  if (!device.table<tsr_device_capture>(TSR_DEVICE_CAPTURE)) return;
  std::vector<RankStream> streams;
  std::ranges::copy_if(commands_.streams, std::back_inserter(streams),
                       [&](const RankStream& s) { return s.device == &device; });
  const auto launch_all = [&] {
    for (const auto& command : commands_.list)
      if (command->kind == Command::Kind::kernel && command->stream.device == &device)
        call(command->stream.api().launch, command->kernel, command->stream.handle, command->pointers.data(),
             command->pointers.size());
  };
  try {
    const Graph never_launched(device, streams, launch_all);
  } catch (const Error&) {
  }
}

/// With `marks`, the action is enclosed by two on its stream: after its waits, and before the event that others wait
/// for.
void Executable::issue(size_t action, StepMarks* marks) {
  Command& command = *commands_.list[action];
  const tsr_device_interface& api = command.stream.api();
  tsr_stream* const stream = command.stream.handle;
  for (tsr_event* event : command.waits)
    call(api.stream_wait, stream, event);
  for (CrossDeviceSync* sync : command.awaited_syncs)
    sync->wait(command.stream);
  if (command.delayed) call(api.host_function, stream, &Delay::run, &command.delay);
  for (const Fill& fill : command.fills)
    call(api.fill, stream, fill.pointer, fill.byte, fill.num_bytes);
  if (marks) marks->mark_begin(command.stream, action);
  issue_work(command);
  if (marks) marks->mark_end(command.stream, action);
  for (const auto& zone : command.red_zones) {
    call(api.copy, stream, zone->seen.at(0), zone->begin, zone->seen.num_bytes());
    call(api.host_function, stream, &RedZone::check, zone.get());
  }
  for (FiniteCheck& check : command.finite_checks) {
    call(api.copy, stream, check.seen, check.begin, check.num_bytes());
    call(api.host_function, stream, &FiniteCheck::check, &check);
  }
  if (takes_sums_) take_sums(command);
  if (command.record) call(api.event_record, command.record, stream);
  if (command.sync) command.sync->signal(command.stream);
}

void Executable::issue_work(Command& command) {
  const tsr_device_interface& api = command.stream.api();
  tsr_stream* const stream = command.stream.handle;
  switch (command.kind) {
    case Command::Kind::kernel:
      call(api.launch, command.kernel, stream, command.pointers.data(), command.pointers.size());
      break;
    case Command::Kind::copy:
      call(api.copy, stream, command.pointers[0], command.pointers[1], command.num_bytes);
      break;
    case Command::Kind::file:
      call(api.host_function, stream, &FileCopy::run, &command.transfer);
      break;
    case Command::Kind::call:
      call(api.host_function, stream, &StrategyCall::run, &command.call);
      break;
    case Command::Kind::collective:
      if (command.comm->clock) command.comm->clock->submit_begin(command.stream, command.collective);
      call(context_.comms().api().submit, command.comm->comm, &command.collective);
      if (command.comm->clock) command.comm->clock->submit_end(command.stream);
      break;
    case Command::Kind::nothing:
      break;
  }
}

void Executable::issue_all(const Cancelled& cancelled, StepMarks* marks, ProgressClock* progress) {
  size_t waiting = 0;  // the first action that may be waiting at an unsignaled semaphore
  for (size_t i = 0; i < commands_.list.size(); ++i) {
    while (waiting < i) {
      const CrossDeviceSync* const sync = unsignaled_sync(*commands_.list[waiting]);
      if (sync && i - waiting < kMaxAfterWait) break;
      if (sync)
        wait_until_signaled(*sync, cancelled);
      else
        ++waiting;
    }
    if (i == first_write_) before_write_();
    issue(i, marks);
    if (progress) progress->issued(i, commands_.list[i]->stream);
  }
  if (progress) progress->issued_all(commands_.streams);
}

void Executable::call_before_writing(std::span<const StatePlace> places, std::function<void()> before) {
  const auto writes = [&](const Binding& binding) {
    return binding.mode != TSR_MODE_READ && std::ranges::count(places, binding.buffer, &StatePlace::buffer) > 0;
  };
  const auto first = std::ranges::find_if(
      program_.actions, [&](const Action& action) { return std::ranges::any_of(action.bindings, writes); });
  first_write_ = first == program_.actions.end() ? kNone : static_cast<size_t>(first - program_.actions.begin());
  before_write_ = std::move(before);
}

void Executable::sum_writes(std::span<const Write> writes) {
  std::map<tsr_stream*, uint64_t> most;
  for (const Write& write : writes) {
    const Buffer& buffer = program_.buffer(write.range.buffer);
    write_sums_.push_back({static_cast<const std::byte*>(context_.pointer(buffer, memory_, write.range.offset)),
                           TSR_NUM_BYTES(buffer.dtype, write.range.num_elements)});
    uint64_t& bytes = most[commands_.list[write.action]->stream.handle];
    bytes = std::max(bytes, write_sums_.back().num_bytes);
  }
  for (size_t i = 0; i < writes.size(); ++i) {
    Command& command = *commands_.list[writes[i].action];
    const RankStream& stream = command.stream;
    // The sums of a stream are taken one after the other, so they share memory.
    const auto arena = summed_.try_emplace(stream.handle, *stream.device, TSR_MEMORY_HOST, most[stream.handle]).first;
    write_sums_[i].seen = static_cast<std::byte*>(arena->second.at(0));
    command.sums.push_back(&write_sums_[i]);
  }
}

void Executable::take_sums(Command& command) {
  const tsr_device_interface& api = command.stream.api();
  for (WriteSum* sum : command.sums) {
    call(api.copy, command.stream.handle, sum->seen, sum->begin, sum->num_bytes);
    call(api.host_function, command.stream.handle, &WriteSum::take, sum);
  }
}

std::vector<uint32_t> Executable::write_sums() const {
  std::vector<uint32_t> sums;
  for (const WriteSum& sum : write_sums_)
    sums.push_back(sum.crc32c);
  return sums;
}

const CrossDeviceSync* Executable::unsignaled_sync(const Command& command) const {
  if (command.stream.device != &context_.device()) return nullptr;  // the host's streams take any number of actions
  const auto unsignaled =
      std::ranges::find_if(command.awaited_syncs, [](const CrossDeviceSync* sync) { return !sync->is_signaled(); });
  return unsignaled == command.awaited_syncs.end() ? nullptr : *unsignaled;
}

/// Throws errors that occur meanwhile.
void Executable::wait_until_signaled(const CrossDeviceSync& sync, const Cancelled& cancelled) {
  auto question = Clock::now() + kQuestion;
  progress_.begin_wait();
  while (!sync.is_signaled()) {
    for (const RankStream& stream : commands_.streams)
      is_done(stream, 0);
    context_.comms().check();
    progress_.check(context_.comms().timeout_ms(program_));
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

void Executable::run(const Cancelled& cancelled, StepTimes* times) {
  if (times && !marks_) marks_.emplace(context_.device(), commands_.list.size());
  if (times) marks_->begin(*times);
  if (commands_.streams.empty()) return;
  first_not_finite_ = kNone;
  try {
    for (const auto& sync : commands_.syncs)
      sync->begin_run();
    context_.comms().begin_run();
    progress_.begin_run();
    for (const auto& command : commands_.list)
      if (command->comm) command->collective.sequence = command->comm->num_collectives++;
    const bool is_step = program_.purpose == TSR_PURPOSE_STEP;
    // Not the first run, in which libraries initialize lazily.
    const bool is_captured = has_run_ && !has_tried_capture_ && !times && is_step && context_.captures();
    if (((graph_ && !times) || is_captured) && first_write_ != kNone) before_write_();  // a capture cannot wait
    if (is_captured) capture(cancelled);
    const bool is_graph = graph_ && !times;
    if (is_graph)
      graph_->launch();
    else
      issue_all(cancelled, times ? &*marks_ : nullptr, &progress_);
    finish(cancelled, is_graph);
    has_run_ = true;
    if (times) marks_->end();
    note_error("");  // what was recovered from
  } catch (const std::exception& error) {
    note_error(error.what());
    stop_after_error();
    throw;
  }
}

void Executable::capture(const Cancelled& cancelled) {
  has_tried_capture_ = true;
  const GraphOptions& graphs = context_.graphs();
  const bool has_obstacle = !obstacle_to_capture(context_, program_).empty();
  if (!graphs.all_agree(!has_obstacle)) {
    if (!has_obstacle) graphs.warn("the step runs without a graph, since another rank cannot capture its own");
    return;
  }
  std::string why = "another rank could not capture its step";
  try {
    graph_.emplace(context_.device(), commands_.streams, [&] { issue_all(cancelled, nullptr, nullptr); });
  } catch (const Error& e) {
    why = e.what();
  }
  if (graphs.all_agree(graph_.has_value())) return;
  graph_.reset();
  graphs.warn("the step cannot be captured as a graph and runs without one: " + why);
}

void Executable::finish(const Cancelled& cancelled, bool is_graph) {
  const auto start = Clock::now();
  auto question = start + kQuestion;
  std::vector<RankStream> busy = commands_.streams;
  for (;;) {
    int64_t timeout_ms = kPollMs;
    // Waits for the first stream only and polls the others. Errors reach every stream that depends on the failed one.
    std::erase_if(busy, [&](const RankStream& stream) { return is_done(stream, std::exchange(timeout_ms, 0)); });
    context_.comms().check();  // also after work has ended: not every stream can fail
    if (busy.empty()) break;
    if (is_graph)
      check_deadline(start);
    else
      progress_.check(context_.comms().timeout_ms(program_));
    if (Clock::now() < question) continue;
    ask(cancelled);
    question += kQuestion;
  }
  if (is_graph) return;
  progress_.check_end();
  longest_run_ = std::max(longest_run_, Clock::now() - start);
}

/// In a graph no collective has its own timeout, so the whole step is timed against the longest one without a graph.
void Executable::check_deadline(Clock::time_point start) const {
  const milliseconds timeout(context_.comms().timeout_ms(program_));
  if (Clock::now() - start < longest_run_ + timeout) return;
  throw Error(TSR_E_DEADLINE,
              "a step that runs as a graph has taken " + std::to_string(timeout.count()) +
                  " ms (--timeout-ms) longer than without a graph; " +
                  (context_.comms().empty() ? "the device's work does not end" : "is another rank still running?"));
}

void Executable::stop_after_error() {
  context_.comms().abort();
  for (const auto& sync : commands_.syncs)
    sync->release();
  context_.close_streams();  // kernels end by themselves, aborted communication within two seconds
}

}  // namespace tessera::host
