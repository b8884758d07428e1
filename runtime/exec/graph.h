// A program's work, captured once and launched again with one call.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "exec/device.h"
#include "program/program.h"

namespace tessera::host {

class ExecutionContext;

/// Why the program cannot be captured, as the end of a sentence; empty when it can.
std::string obstacle_to_capture(const ExecutionContext& context, const Program& program);

/// Owned by an Executable, which destroys it when no launch is in flight.
class Graph {
 public:
  /// Captures the work that `issue` submits to `streams`, all of `device`. Throws the error of the device or of
  /// `issue`; then nothing has run, and the streams take work as before. [issue-thread]
  Graph(const Device& device, std::span<const RankStream> streams, const std::function<void()>& issue);
  ~Graph();
  Graph(const Graph&) = delete;

  /// Launches the graph on the first of the streams. [issue-thread]
  void launch();

 private:
  void capture(std::span<const RankStream> streams, const std::function<void()>& issue);

  const tsr_device_capture& api_;
  tsr_stream* const lead_;
  std::vector<EventHandle> events_;  // one for each stream: the fork on the lead, joins on the others
  tsr_graph* graph_ = nullptr;
};

}  // namespace tessera::host
