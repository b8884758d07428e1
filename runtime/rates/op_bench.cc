// Ops are timed on their stream, between two marks as in a profile (exec/record/step_times.h):
//
//     issuing thread     hold | mark launch mark | mark launch mark | ... | let go | wait
//     stream             ............................................. op ... op ... op
//
// A round goes through all ops in the order of the program rather than through one many times, so that what an op finds
// in caches is about what it finds in a step. The first round, in which libraries prepare themselves, does not count.
// The rounds' mean is kept, not their median: a step is a sum of ops, and what interrupts one op in fifty lengthens it.

#include "rates/op_bench.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>

#include "base/clock.h"
#include "guard/plugin_calls.h"
#include "program/lower_op.h"
#include "rates/op_rate.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr size_t kMinRounds = 5, kMaxRounds = 200;
constexpr double kSeconds = 2;  // of rounds, where more than the least fit
constexpr int64_t kRoundMs = 600'000;

/// Blocks a stream until it is opened.
class Gate {
 public:
  static tsr_status run(void* self, tsr_error*) noexcept {
    auto& gate = *static_cast<Gate*>(self);
    std::unique_lock lock(gate.mutex_);
    gate.opened_.wait(lock, [&] { return gate.is_open_; });
    return TSR_OK;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = false;
};

/// The first action of each op and shape, in list order, and how often the program has it.
std::vector<std::pair<uint32_t, uint64_t>> distinct_ops(const Program& program, OpBench::Where where) {
  std::vector<std::pair<uint32_t, uint64_t>> distinct;
  std::map<std::pair<std::string, std::string>, size_t> seen;
  for (uint32_t i = 0; i < program.actions.size(); ++i) {
    const bool is_of_host = is_host_op(program, program.actions[i]);
    if (where == OpBench::Where::host ? !is_of_host : !is_op(program, program.actions[i])) continue;
    const OpRate rate = unmeasured(program, program.actions[i]);
    const auto [entry, is_new] = seen.try_emplace({rate.op, rate.shape}, distinct.size());
    if (is_new) distinct.emplace_back(i, 0);
    ++distinct[entry->second].second;
  }
  return distinct;
}

}  // namespace

OpBench::OpBench(const Device& device, const Program& program, Where where)
    : device_(device), program_(program), stream_(make_stream(device, "compute")) {
  std::vector<uint32_t> actions;
  const auto distinct = distinct_ops(program, where);
  for (const auto& [index, num_times] : distinct)
    actions.push_back(index);
  memory_ = std::make_unique<OpMemory>(device, program, actions);
  for (const auto& [index, num_times] : distinct) {
    const Action& action = program.actions[index];
    ops_.push_back({.rate = unmeasured(program, action),
                    .num_times = num_times,
                    .is_update = action.kind == TSR_ACTION_OPTIMIZER,
                    .kernel = nullptr,
                    .pointers = memory_->operands(action)});
    prepare(action, ops_.back());
  }
  marks_ = std::make_unique<StepMarks>(device, ops_.size());
}

void OpBench::prepare(const Action& action, Op& op) const {
  tsr_op lowered = op_of(program_, action);
  const std::vector<tsr_op_range> ranges = op_ranges_of(program_, action);
  lowered.ranges = ranges.data();
  lowered.num_ranges = ranges.size();
  std::vector<tsr_slot_spec> slots;
  for (const Binding& b : action.bindings)
    slots.push_back({b.slot, b.mode, program_.buffer(b.buffer).dtype, 0, b.num_elements});
  op.kernel = make_kernel(device_, lowered, slots);
}

void OpBench::launch(size_t i) {
  const Op& op = ops_[i];
  const RankStream stream{&device_, stream_.get()};
  marks_->mark_begin(stream, i);
  call(device_.api().launch, op.kernel.get(), stream.handle, op.pointers.data(), op.pointers.size());
  marks_->mark_end(stream, i);
}

void OpBench::run_round(bool is_held) {
  memory_->reset(stream_.get());
  marks_->begin(times_);
  Gate gate;
  if (is_held) call(device_.api().host_function, stream_.get(), &Gate::run, &gate);
  try {
    for (size_t i = 0; i < ops_.size(); ++i) {
      // Earlier ops may have left gradients that are not finite, and an update with such gradients is skipped.
      if (ops_[i].is_update) memory_->restore_fixed(stream_.get());
      launch(i);
    }
  } catch (...) {
    gate.open();
    throw;
  }
  gate.open();
  synchronize(device_, stream_.get(), kRoundMs);
  marks_->end();
}

std::vector<OpRate> OpBench::measure(Progress* progress) {
  run_round(false);
  const auto start = Clock::now();
  const auto passed = [&] { return seconds_since(start); };
  size_t num_rounds = 0;
  for (; num_rounds < kMinRounds || (num_rounds < kMaxRounds && passed() < kSeconds); ++num_rounds) {
    if (progress) progress->at(std::min(num_rounds, kMinRounds), kMinRounds);
    run_round(true);
    for (size_t i = 0; i < ops_.size(); ++i)
      ops_[i].seconds += static_cast<double>(times_.actions[i].end_ns - times_.actions[i].begin_ns) * 1e-9;
  }
  std::vector<OpRate> rates;
  for (Op& op : ops_) {
    op.rate.seconds = std::max(1e-9, op.seconds / static_cast<double>(num_rounds));
    rates.push_back(op.rate);
  }
  return rates;
}

const OpBench::Op& OpBench::largest() const {
  return *std::ranges::max_element(ops_, {},
                                   [](const Op& op) { return op.rate.seconds * static_cast<double>(op.num_times); });
}

KernelLoad OpBench::load() const {
  const Op& op = largest();
  return {device_, stream_.get(), op.kernel.get(), op.pointers, op.rate.seconds};
}

}  // namespace tessera::host
