// Two streams copy: one of the device what is in memory, one of the host what is in files. Both are made with the copy,
// before any rank runs a step: where ranks share a GPU, a call that makes something waits for streams of the others,
// which may wait for this rank. One that failed stays failed and is made anew. The last work of each is a function of
// the host, so wait() learns of the end without a call of the device, and works on any thread. A stream that has failed
// skips it; finish() then tells.
//
//     control thread   begin(): copies, then end_lane, on each stream | a step begins | finish() | the step updates
//     other thread                                                      wait(), then reads bytes()
//
// Cost: as many bytes of the host's memory as are copied, which is 12 for each parameter that a rank owns under adamw.

#include "exec/state_copy.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kPollMs = 2;
/// What is in files is read in pieces, so that reads of the step come between them.
constexpr uint64_t kFilePiece = 4 << 20;

}  // namespace

uint64_t num_bytes_of(const Program& program, std::span<const StatePlace> places) {
  uint64_t num_bytes = 0;
  for (const StatePlace& place : places)
    num_bytes += TSR_NUM_BYTES(program.buffer(place.buffer).dtype, place.num_elements);
  return num_bytes;
}

StateCopy::StateCopy(ExecutionContext& context, const Program& program, const MemoryPlan& memory,
                     std::span<const StatePlace> places)
    : context_(context),
      compute_(context.stream(program, TSR_STREAM_COMPUTE).handle),
      timeout_ms_(context.comms().timeout_ms(program)),
      bytes_(context.device(), TSR_MEMORY_HOST, num_bytes_of(program, places)),
      progress_(context.device()) {
  if (bytes_.num_bytes()) std::memset(bytes_.at(0), 0, bytes_.num_bytes());
  uint64_t address = 0;
  for (const StatePlace& place : places) {
    add(program, memory, place, address);
    address += num_bytes_of(program, {&place, 1});
  }
  add_lane(context.device(), "copy_state", &StateCopy::copy_memory);
  if (!transfers_.empty()) add_lane(context.host_device(), "read_state", &StateCopy::copy_files);
}

StateCopy::~StateCopy() {
  finish();
}

void StateCopy::add(const Program& program, const MemoryPlan& memory, const StatePlace& place, uint64_t address) {
  const Buffer& buffer = program.buffer(place.buffer);
  const uint64_t num_bytes = num_bytes_of(program, {&place, 1});
  if (buffer.memory != TSR_MEMORY_FILE) {
    sources_.push_back({context_.pointer(buffer, memory, place.offset), address, num_bytes});
    return;
  }
  const uint64_t begin = memory.address.at(buffer.id) + TSR_NUM_BYTES(buffer.dtype, place.offset);
  for (uint64_t done = 0; done < num_bytes; done += kFilePiece)
    transfers_.push_back({context_.files(),
                          false,
                          begin + done,
                          {bytes_.at(address + done), std::min(kFilePiece, num_bytes - done)},
                          buffer.name});
}

void StateCopy::add_lane(const Device& device, const char* name, void (StateCopy::*copy)(const RankStream& stream)) {
  lanes_.push_back({*this, device, name, copy, make_stream(device, name)});
}

void StateCopy::copy_memory(const RankStream& stream) {
  for (size_t i = 0; i < sources_.size(); ++i) {
    call(stream.api().copy, stream.handle, bytes_.at(sources_[i].address), sources_[i].pointer, sources_[i].num_bytes);
    progress_.issued(i, stream);
  }
}

void StateCopy::copy_files(const RankStream& stream) {
  for (FileCopy& transfer : transfers_)
    call(stream.api().host_function, stream.handle, &FileCopy::run, &transfer);
}

void StateCopy::begin() {
  finish();
  waited_ms_ = 0;
  {
    const std::lock_guard lock(mutex_);
    for (Lane& lane : lanes_)
      lane.is_under_way = true;
    error_ = nullptr;
  }
  is_under_way_ = true;
  progress_.begin_run();
  try {
    for (Lane& lane : lanes_)
      issue(lane);
  } catch (...) {
    fail(std::current_exception());
    throw;
  }
}

void StateCopy::issue(Lane& lane) {
  if (!lane.stream) lane.stream = make_stream(lane.device, lane.name);
  const RankStream stream{&lane.device, lane.stream.get()};
  (this->*lane.copy)(stream);
  call(stream.api().host_function, stream.handle, &StateCopy::end_lane, &lane);
  progress_.issued_all({&stream, 1});
}

/// What is still in flight finish() waits for.
void StateCopy::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  for (Lane& lane : lanes_)
    lane.is_under_way = false;
  error_ = std::move(error);
  ended_.notify_all();
}

tsr_status StateCopy::end_lane(void* lane_of_stream, tsr_error*) noexcept {
  Lane& lane = *static_cast<Lane*>(lane_of_stream);
  const std::lock_guard lock(lane.owner.mutex_);
  lane.is_under_way = false;
  lane.owner.ended_.notify_all();
  return TSR_OK;
}

/// Issued work may keep the device busy for longer than the copy takes: then nothing waits but this thread. After an
/// error in a step its streams are gone, while the copy of the last state may still be under way.
bool StateCopy::is_computing() const {
  if (!context_.has_streams()) return false;
  tsr_error ignored{};
  return enter(context_.device().api().stream_synchronize, compute_, 0, &ignored) == TSR_IN_PROGRESS;
}

void StateCopy::wait_for(const Lane& lane) {
  const auto synchronize = lane.device.api().stream_synchronize;
  for (tsr_status status = TSR_IN_PROGRESS; status == TSR_IN_PROGRESS;) {
    const bool is_idle = !is_computing();
    const auto start = Clock::now();
    tsr_error err{};
    status = enter(synchronize, lane.stream.get(), kPollMs, &err);
    if (status != TSR_IN_PROGRESS && status != TSR_OK) check_call(status, err, address_of(synchronize));
    if (lane.copy == &StateCopy::copy_memory) progress_.check(timeout_ms_);
    if (is_idle) waited_ms_ += ms_since(start);
  }
}

void StateCopy::finish() {
  if (!std::exchange(is_under_way_, false)) return;
  std::exception_ptr error;
  for (Lane& lane : lanes_)
    try {
      if (lane.stream) wait_for(lane);
    } catch (...) {
      if (!error) error = std::current_exception();
      lane.stream.reset();  // waits for its work in flight
    }
  if (!error) return progress_.check_end();
  fail(std::move(error));
}

void StateCopy::wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return std::ranges::none_of(lanes_, &Lane::is_under_way); });
  if (error_) std::rethrow_exception(error_);
}

}  // namespace tessera::host
