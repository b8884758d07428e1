// Actions of several ranks are matched as in verify/collective_matching.h: the k-th collective of a group on a stream,
// and the k-th message of a pair in one direction. A group is named by its axis, coordinates and lowest rank.
//
//     comm.dp.gradient dp of 0 #3      the fourth collective of that group on that stream
//     comm.pp pp of 0 1>0 #0           the first message from member 1 to member 0
//
// All but the times is computed once, since every step of a trace has the same actions.

#include "plan/step_events.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/concat.h"
#include "plan/traffic.h"
#include "program/collective_operands.h"
#include "program/lower_op.h"
#include "verify/diagnostics.h"

namespace tessera::host {
namespace {

/// "forward h.0.qkv", "all_reduce %61": kind and object, and the micro-batch where there are several.
std::string name_of(const Program& program, const Action& action) {
  std::string name = concat(action_name(action.kind), object_text(program, action));
  if (is_compute(action.kind) && program.step_config.num_micro_batches > 1) name += concat(" mb=", action.micro_batch);
  return name;
}

Work work_of(const Action& action) {
  if (is_collective(action.kind)) return Work::communication;
  return action.kind == TSR_ACTION_COPY ? Work::copy : Work::compute;
}

uint64_t bytes_of(const Program& program, const Action& action) {
  if (is_collective(action.kind)) return sent_bytes(program, action);
  uint64_t num_bytes = 0;
  for (const Binding& binding : action.bindings)
    num_bytes += TSR_NUM_BYTES(program.buffer(binding.buffer).dtype, binding.num_elements);
  return num_bytes;
}

/// Names the communications that a rank's actions are part of, in list order.
class CommunicationNames {
 public:
  explicit CommunicationNames(const Program& program) : program_(program) {}

  std::vector<std::string> of(const Action& action) {
    if (!is_collective(action.kind)) return {};
    const Group& group = program_.groups[action.group];
    const std::vector<int> members = program_.mesh->members(group, program_.coordinates);
    if (members.size() < 2) return {};
    const std::string channel = concat(program_.streams[action.stream].name, " ", group_text(program_, group), " of ",
                                       *std::ranges::min_element(members));
    if (!is_message(action.kind)) return {numbered(channel)};
    std::vector<std::string> communications;
    const int own = program_.mesh->position(group, program_.coordinates);
    for (const Message& message : messages_of(action))
      communications.push_back(numbered(
          concat(channel, " ", message.is_receive ? message.peer : own, ">", message.is_receive ? own : message.peer)));
    return communications;
  }

 private:
  std::string numbered(const std::string& channel) { return concat(channel, " #", num_before_[channel]++); }

  const Program& program_;
  std::map<std::string, int> num_before_;
};

}  // namespace

StepEvents::StepEvents(const Program& program, int rank) {
  for (const Stream& stream : program.streams)
    streams_.push_back(stream.name);
  CommunicationNames names(program);
  for (uint32_t i = 0; i < program.actions.size(); ++i) {
    const Action& action = program.actions[i];
    TracedAction traced;
    traced.rank = rank;
    traced.action = i;
    traced.stream = action.stream;
    traced.name = name_of(program, action);
    traced.kind = action_name(action.kind);
    traced.work = work_of(action);
    traced.num_bytes = bytes_of(program, action);
    traced.num_operations = is_compute(action.kind) ? num_operations(op_of(program, action)) : 0;
    traced.after = action.dependencies;
    traced.communications = names.of(action);
    actions_.push_back(std::move(traced));
  }
}

void StepEvents::add_to(Trace& trace, int64_t step, const std::function<ActionTime(size_t action)>& times) const {
  std::vector<uint32_t> indices;
  for (const std::string& stream : streams_) {
    const auto known = std::ranges::find(trace.streams, stream);
    indices.push_back(static_cast<uint32_t>(known - trace.streams.begin()));
    if (known == trace.streams.end()) trace.streams.push_back(stream);
  }
  for (const TracedAction& action : actions_) {
    const ActionTime time = times(action.action);
    TracedAction& traced = trace.actions.emplace_back(action);
    traced.step = step;
    traced.stream = indices[action.stream];
    traced.begin_ns = time.begin_ns;
    traced.end_ns = time.end_ns;
  }
}

Trace simulated_trace(const Mesh& mesh, const ProgramOf& program, const Simulation& simulation) {
  Trace trace;
  trace.num_ranks = mesh.num_ranks();
  const auto nanoseconds = [](double seconds) { return static_cast<int64_t>(std::llround(seconds * 1e9)); };
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    const std::vector<Interval>& intervals = simulation.of(rank);
    StepEvents(program(rank), rank).add_to(trace, 1, [&](size_t i) {
      return ActionTime{nanoseconds(intervals[i].start), nanoseconds(intervals[i].end)};
    });
  }
  return trace;
}

}  // namespace tessera::host
