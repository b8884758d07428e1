#include "exec/executable.h"

#include "exec/step.h"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr int64_t kPollMs = 1000;

}  // namespace

ExecutionContext::ExecutionContext(const Device& device, Communicators& comms,
                                   std::span<const StrategyOnAxis> strategies, const std::map<uint32_t, Arena>& arenas,
                                   DebugOptions debug)
    : device_(device), comms_(comms), strategies_(strategies), arenas_(arenas), debug_(debug) {}

ExecutionContext::~ExecutionContext() {
  if (std::uncaught_exceptions() > num_exceptions_) comms_.abort();
}

tsr_stream* ExecutionContext::stream(const std::string& name) {
  StreamHandle& handle = streams_[name];
  if (!handle) handle = make_stream(device_, name);
  return handle.get();
}

const StrategyOnAxis& ExecutionContext::strategy(int axis) const {
  for (const StrategyOnAxis& strategy : strategies_)
    if (strategy.axis == axis) return strategy;
  throw Error(TSR_E_INTERNAL, "a call action names axis " + std::to_string(axis) + ", which has no strategy");
}

void* ExecutionContext::pointer(const Buffer& buffer, const MemoryPlan& memory, uint64_t offset_elements) const {
  return arenas_.at(buffer.memory).at(memory.address.at(buffer.id) + offset_elements * TSR_DTYPE_BYTES(buffer.dtype));
}

Executable::~Executable() = default;

void Executable::issue(Step& step) {
  const tsr_device_interface& api = context_.device().api();
  for (tsr_event* event : step.waits)
    call(api.stream_wait, step.stream, event);
  if (step.delayed) call(api.host_function, step.stream, &Delay::run, &step.delay);
  for (const Fill& fill : step.fills)
    call(api.fill, step.stream, fill.pointer, fill.byte, fill.num_bytes);
  switch (step.kind) {
    case Step::Kind::kernel:
      call(api.launch, step.kernel, step.stream, step.pointers.data(), step.pointers.size());
      break;
    case Step::Kind::copy:
      call(api.copy, step.stream, step.pointers[0], step.pointers[1], step.num_bytes);
      break;
    case Step::Kind::call:
      call(api.host_function, step.stream, &StrategyCall::run, &step.call);
      break;
    case Step::Kind::collective:
      step.collective.sequence = step.comm->num_submitted++;
      call(context_.comms().api().submit, step.comm->comm, &step.collective);
      break;
    case Step::Kind::nothing:
      break;
  }
  for (Guard* guard : step.checks)
    call(api.host_function, step.stream, &Guard::check, guard);
  if (step.record) call(api.event_record, step.record, step.stream);
}

void Executable::run(const std::function<bool()>& cancelled) {
  try {
    for (auto& step : steps_)
      issue(*step);
    finish(cancelled);
  } catch (...) {
    stop_after_error();
    throw;
  }
}

void Executable::finish(const std::function<bool()>& cancelled) {
  for (tsr_stream* stream : streams_) {
    for (;;) {
      tsr_error err{};
      const tsr_status status = context_.device().api().stream_synchronize(stream, kPollMs, &err);
      if (status == TSR_OK) break;
      if (status != TSR_IN_PROGRESS) check(status, err);
      if (cancelled()) throw Error(TSR_E_CANCELLED, "the run was stopped while a program was running");
    }
  }
}

void Executable::stop_after_error() {
  context_.comms().abort();
  for (tsr_stream* stream : streams_) {
    tsr_error ignored{};  // kernels end by themselves, aborted communication within two seconds
    while (context_.device().api().stream_synchronize(stream, kPollMs, &ignored) == TSR_IN_PROGRESS) {
    }
  }
}

}  // namespace tessera
