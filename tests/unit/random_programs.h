// Random programs for tests of the planner of memory.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "passes/dependencies.h"
#include "support/program_builder.h"

namespace tessera::testing {

// Which messages there are: none; sends on a stream of their own, as in a pipeline; of all kinds, on any stream.
enum class Messages { none, apart, anywhere };

inline std::vector<uint32_t> kinds_with(Messages messages) {
  if (messages == Messages::none) return {TSR_ACTION_CALL, TSR_ACTION_ALL_REDUCE};
  if (messages == Messages::apart) return {TSR_ACTION_CALL, TSR_ACTION_ALL_REDUCE, TSR_ACTION_RECV};
  return {TSR_ACTION_CALL, TSR_ACTION_CALL, TSR_ACTION_SEND, TSR_ACTION_RECV, TSR_ACTION_EXCHANGE};
}

// Buffers with short lives in both memories, on several streams, among actions with other ranks; then derived.
inline Program random_program(const Model& model, const Mesh& mesh, uint32_t seed, int num_actions, Messages messages) {
  std::mt19937 random(seed);
  const auto below = [&](uint64_t n) { return random() % n; };
  Program program = empty_program(model, mesh);
  for (uint64_t i = 0, n = below(4); i < n; ++i)
    program.comm_stream(TSR_WORLD_AXIS, "lane" + std::to_string(i));
  const size_t num_streams = program.streams.size();
  const uint32_t send_stream = program.comm_stream(TSR_WORLD_AXIS, "sends");
  const uint64_t home = persistent(program, "home", 1000);
  const std::vector<uint32_t> kinds = kinds_with(messages);
  std::vector<uint64_t> live;
  if (messages == Messages::anywhere)  // a call follows a send on its stream
    for (const uint32_t kind : {TSR_ACTION_SEND, TSR_ACTION_CALL})
      add_action(program, kind, send_stream, {read(home)});
  for (int i = 0; i < num_actions; ++i) {
    const bool sends = messages == Messages::apart && !live.empty() && below(6) == 0;
    std::vector<Use> uses;
    if (!sends && below(3)) {
      const uint32_t memory = below(6) ? TSR_MEMORY_DEVICE : TSR_MEMORY_HOST;
      live.push_back(transient(program, "t", below(12) ? 1 + below(3000) : 0, TSR_BUFFER_ACTIVATION, TSR_F32, memory));
      uses.push_back(write(live.back()));
    }
    if (!live.empty())
      for (uint64_t k = 0, n = below(3); k < n; ++k)
        uses.push_back(read(live[below(live.size())]));
    if (!sends && below(8) == 0) uses.push_back(add(home).at(below(900), 100));
    while (live.size() > 1 + below(10))
      live.erase(live.begin() + static_cast<long>(below(live.size())));
    add_action(program, sends ? TSR_ACTION_SEND : kinds[below(kinds.size())],
               sends ? send_stream : static_cast<uint32_t>(below(num_streams)), uses);
  }
  derive_dependencies(program);
  return program;
}

}  // namespace tessera::testing
