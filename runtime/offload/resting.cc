// A policy is asked about steps. The other programs of the rank have the same persistent buffers, so what a step leaves
// in another memory they find there: it is fetched for each of their uses, and evicted after it when they wrote it.

#include "offload/resting.h"

#include <map>
#include <set>
#include <utility>

#include "offload/movement.h"
#include "offload/visits.h"

namespace tessera::host {

std::vector<RestingBuffer> resting_buffers(const Program& program, std::span<const tsr_leave> leaves) {
  std::map<uint64_t, RestingBuffer> resting;  // by id; of an item's leaves the last one counts
  for (const tsr_leave& leave : leaves)
    if (const Buffer& buffer = program.buffer(leave.buffer); buffer.persistent) {
      RestingBuffer& found =
          resting.try_emplace(buffer.id, RestingBuffer{buffer.kind, buffer.name, leave}).first->second;
      if (found.leave.after < leave.after) found.leave = leave;
    }
  std::vector<RestingBuffer> result;
  for (auto& [id, buffer] : resting)
    result.push_back(std::move(buffer));
  return result;
}

void follow_resting_buffers(Program& program, std::span<const RestingBuffer> resting, bool device_memory_is_host) {
  const std::vector<tsr_visit> visits = visits_of(program);
  const std::vector<uint32_t> visit_of = visit_of_actions(visits);
  std::map<uint64_t, const tsr_leave*> leave_of;
  for (const RestingBuffer& buffer : resting)
    for (Buffer& own : program.buffers)
      if (own.persistent && own.kind == buffer.kind && own.name == buffer.name) {
        own.memory = buffer.leave.memory;
        leave_of[own.id] = &buffer.leave;
      }
  std::set<std::pair<uint64_t, uint32_t>> used;  // by buffer and visit
  for (size_t i = 0; i < program.actions.size(); ++i)
    for (const Binding& b : program.actions[i].bindings)
      if (leave_of.contains(b.buffer)) used.emplace(b.buffer, visit_of[i]);
  std::vector<tsr_leave> leaves;
  for (const auto& [buffer, visit] : used)
    leaves.push_back({buffer, visit, leave_of[buffer]->memory, leave_of[buffer]->ahead, leave_of[buffer]->linger});
  move_items(program, visits, leaves, device_memory_is_host);
}

}  // namespace tessera::host
