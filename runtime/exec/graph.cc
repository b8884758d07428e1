// Captures a step as a graph: a CUDA graph, or a device's equivalent. Capture begins on one stream, the lead; the
// others join by waiting for an event of it, and are joined back at the end:
//
//     lead      record(fork) ---- work ---------------- wait(join 1) wait(join 2) -- end
//     stream 1  wait(fork) ------ work -- record(join 1)
//     stream 2  wait(fork) ------ work -- record(join 2)
//
// Host functions, waits between devices and anything that inspects single actions cannot be captured;
// obstacle_to_capture names the first reason.

#include "exec/graph.h"

#include <algorithm>

#include "base/concat.h"
#include "exec/execution_context.h"
#include "tessera/error.hpp"

namespace tessera::host {

std::string obstacle_to_capture(const ExecutionContext& context, const Program& program) {
  if (!context.graphs().is_on) return "--cuda-graph is off";
  const DebugOptions& debug = context.debug();
  if (debug.check_memory || debug.stream_delay) return "--debug-memory and --stream-delay inspect every action";
  if (debug.sums_writes) return "--debug-replicas inspects every action";
  if (!context.device().table<tsr_device_capture>(TSR_DEVICE_CAPTURE))
    return "the device does not capture work (it has no " TSR_DEVICE_CAPTURE ")";
  const auto is_call = [](const Action& action) { return action.kind == TSR_ACTION_CALL; };
  if (std::ranges::any_of(program.actions, is_call)) return "a strategy computes on the host";
  if (!program.host_flag.empty()) return concat("the optimizer runs on the host (", program.host_flag, ")");
  const auto uses_files = [&](const Action& action) {
    return program.streams[action.stream].kind == TSR_STREAM_KIND_HOST;
  };
  if (std::ranges::any_of(program.actions, uses_files)) return "what is offloaded goes to files";
  const auto collects = [](const Action& action) { return is_collective(action.kind); };
  if (&context.comm_device() != &context.device() && std::ranges::any_of(program.actions, collects))
    return "the communicator works on the host";
  const auto communicates = [&](const Action& action) {
    return is_collective(action.kind) && context.comms().find(program, action);
  };
  if (!context.comms().is_capturable() && std::ranges::any_of(program.actions, communicates))
    return "the communicator's work cannot be captured";
  return "";
}

Graph::Graph(const Device& device, std::span<const RankStream> streams, const std::function<void()>& issue)
    : api_(*device.table<tsr_device_capture>(TSR_DEVICE_CAPTURE)), lead_(streams.front().handle) {
  for (size_t i = 0; i < streams.size(); ++i)
    events_.push_back(make_event(device));
  call(api_.begin, lead_);
  try {
    capture(streams, issue);
  } catch (...) {
    tsr_error ignored{};
    tsr_graph* partial = nullptr;
    if (enter(api_.end, lead_, &partial, &ignored) == TSR_OK) end_with(api_.destroy, partial);
    throw;
  }
  graph_ = made_by<tsr_graph>(api_.end, lead_);
}

Graph::~Graph() {
  if (graph_) end_with(api_.destroy, graph_);
}

/// The other streams join the lead's capture where it begins, and it waits for them where it ends.
void Graph::capture(std::span<const RankStream> streams, const std::function<void()>& issue) {
  const auto& device = streams.front().api();
  call(device.event_record, events_[0].get(), lead_);
  for (const RankStream& stream : streams.subspan(1))
    call(device.stream_wait, stream.handle, events_[0].get());
  issue();
  for (size_t i = 1; i < streams.size(); ++i) {
    call(device.event_record, events_[i].get(), streams[i].handle);
    call(device.stream_wait, lead_, events_[i].get());
  }
}

void Graph::launch() {
  call(api_.launch, graph_, lead_);
}

}  // namespace tessera::host
