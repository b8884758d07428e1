// The state that the programs of a rank share. Streams are shared by name, so `init`, `step` and `eval` use the same
// ones, and comm streams are created on the device whose streams the communicator takes.

#include "exec/execution_context.h"

#include "tessera/error.hpp"

namespace tessera::host {

ExecutionContext::ExecutionContext(RankDevices devices, Communicators& comms,
                                   std::span<const StrategyOnAxis> strategies, const std::map<uint32_t, Arena>& arenas,
                                   FileStore* files, DebugOptions debug, GraphOptions graphs)
    : devices_(devices),
      comms_(comms),
      strategies_(strategies),
      arenas_(arenas),
      files_(files),
      debug_(debug),
      graphs_(std::move(graphs)) {}

ExecutionContext::~ExecutionContext() {
  if (std::uncaught_exceptions() > num_exceptions_) comms_.abort();
}

RankStream ExecutionContext::stream(const Program& program, uint32_t index) {
  const Stream& stream = program.streams[index];
  const Device& device = stream.kind == TSR_STREAM_KIND_COMM   ? devices_.comm
                         : stream.kind == TSR_STREAM_KIND_HOST ? devices_.host
                                                               : devices_.device;
  StreamHandle& handle = streams_[stream.name];
  if (!handle) handle = make_stream(device, stream.name);
  return {&device, handle.get()};
}

const StrategyOnAxis& ExecutionContext::strategy(int index) const {
  if (index < 0 || static_cast<size_t>(index) >= strategies_.size())
    throw Error(TSR_E_INTERNAL,
                "a call action names strategy " + std::to_string(index) + " of " + std::to_string(strategies_.size()));
  return strategies_[static_cast<size_t>(index)];
}

void* ExecutionContext::pointer(const Buffer& buffer, const MemoryPlan& memory, uint64_t offset_elements) const {
  return arenas_.at(buffer.memory).at(memory.address.at(buffer.id) + TSR_NUM_BYTES(buffer.dtype, offset_elements));
}

}  // namespace tessera::host
