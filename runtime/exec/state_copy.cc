// Two streams copy: one of the device what is in memory, one of the host what is in files. Both are new for each copy,
// since a stream that failed stays failed. The last work of each is a function of the host, so wait() learns of the end
// without a call of the device, and works on any thread. A stream that has failed skips it; finish() then tells.
//
//     control thread   begin(): copies, then end_stream, on each stream | a step begins | finish() | the step updates
//     other thread                                                      wait(), then reads bytes()
//
// Cost: as many bytes of the host's memory as are copied, which is 12 for each parameter that a rank owns under adamw.

#include "exec/state_copy.h"

#include <algorithm>
#include <chrono>
#include <cstring>

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
      bytes_(context.device(), TSR_MEMORY_HOST, num_bytes_of(program, places)) {
  if (bytes_.num_bytes()) std::memset(bytes_.at(0), 0, bytes_.num_bytes());
  uint64_t address = 0;
  for (const StatePlace& place : places) {
    add(program, memory, place, address);
    address += num_bytes_of(program, {&place, 1});
  }
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

void StateCopy::begin_stream(const Device& device, const char* name) {
  streams_.push_back(make_stream(device, name));
  const std::lock_guard lock(mutex_);
  ++num_under_way_;
}

void StateCopy::begin() {
  finish();
  waited_ms_ = 0;
  {
    const std::lock_guard lock(mutex_);
    num_under_way_ = 0;
    error_ = nullptr;
  }
  const auto submit = [&](const Device& device, const char* name, const auto& work) {
    begin_stream(device, name);
    tsr_stream* const stream = streams_.back().get();
    work(device.api(), stream);
    call(device.api().host_function, stream, &StateCopy::end_stream, this);
  };
  submit(context_.device(), "copy_state", [&](const tsr_device_interface& api, tsr_stream* stream) {
    for (const Source& source : sources_)
      call(api.copy, stream, bytes_.at(source.address), source.pointer, source.num_bytes);
  });
  if (transfers_.empty()) return;
  submit(context_.host_device(), "read_state", [&](const tsr_device_interface& api, tsr_stream* stream) {
    for (FileCopy& transfer : transfers_)
      call(api.host_function, stream, &FileCopy::run, &transfer);
  });
}

void StateCopy::end_one(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  num_under_way_ = error ? 0 : num_under_way_ - 1;
  if (error && !error_) error_ = std::move(error);
  ended_.notify_all();
}

tsr_status StateCopy::end_stream(void* self, tsr_error*) noexcept {
  static_cast<StateCopy*>(self)->end_one(nullptr);
  return TSR_OK;
}

/// Issued work may keep the device busy for longer than the copy takes: then nothing waits but this thread.
bool StateCopy::is_computing() const {
  tsr_error ignored{};
  return enter(context_.device().api().stream_synchronize, compute_, 0, &ignored) == TSR_IN_PROGRESS;
}

void StateCopy::wait_for(const tsr_device_interface& api, tsr_stream* stream) {
  for (tsr_status status = TSR_IN_PROGRESS; status == TSR_IN_PROGRESS;) {
    const bool is_idle = !is_computing();
    const auto start = Clock::now();
    tsr_error err{};
    status = enter(api.stream_synchronize, stream, kPollMs, &err);
    if (status != TSR_IN_PROGRESS && status != TSR_OK) check_call(status, err, address_of(api.stream_synchronize));
    if (is_idle) waited_ms_ += std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }
}

void StateCopy::finish() {
  if (streams_.empty()) return;
  std::exception_ptr error;
  for (const StreamHandle& stream : streams_)
    try {
      wait_for(*stream.get_deleter().api, stream.get());
    } catch (...) {
      error = std::current_exception();
    }
  streams_.clear();  // waits for work in flight of a stream that has failed
  if (error) end_one(error);
}

void StateCopy::wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return num_under_way_ == 0; });
  if (error_) std::rethrow_exception(error_);
}

}  // namespace tessera::host
