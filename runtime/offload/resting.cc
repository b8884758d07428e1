// A policy is asked about steps. The other programs of the rank have the same persistent buffers, so what a step leaves
// in another memory they find there: it is fetched for each of their uses, and evicted after it when they wrote it. In
// eval, under --offload stream,
//
//     1     compute   forward wte mb=0  r %1 p:weight  r %21 i:tokens  w %23 o:wte.out
//
// becomes
//
//     0     fetch     copy  r %1 src  w %23 dst                   %1 = home wte persistent host f32[3072]
//     3     compute   forward wte mb=0  r %23 p:weight  r %21 i:tokens  w %25 o:wte.out  # 0
//
// Invariant: a buffer rests in one memory in all programs of a rank, variants of the step included. Cost: buffers times
// those that rest elsewhere, n log n in the bindings, and that of movement.cc.

#include "offload/resting.h"

#include <map>
#include <set>
#include <utility>

#include "base/concat.h"
#include "offload/movement.h"
#include "offload/visits.h"
#include "tessera/error.hpp"

namespace tessera::host {

namespace {

bool is_same(const RestingBuffer& resting, const Buffer& own) {
  return own.persistent && own.kind == resting.kind && own.strategy == resting.strategy && own.name == resting.name;
}

}  // namespace

std::vector<RestingBuffer> resting_buffers(const Program& program, std::span<const tsr_leave> leaves) {
  std::map<uint64_t, RestingBuffer> resting;  // by id; of an item's leaves the last one counts
  for (const tsr_leave& leave : leaves)
    if (const Buffer& buffer = program.buffer(leave.buffer); buffer.persistent) {
      RestingBuffer& found =
          resting.try_emplace(buffer.id, RestingBuffer{buffer.kind, buffer.strategy, buffer.name, leave}).first->second;
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
      if (is_same(buffer, own)) {
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

void agree_on_resting_buffers(Program& step, std::span<const RestingBuffer> resting) {
  std::set<uint64_t> used;
  for (const Action& action : step.actions)
    for (const Binding& b : action.bindings)
      used.insert(b.buffer);
  for (const RestingBuffer& buffer : resting)
    for (Buffer& own : step.buffers) {
      if (!is_same(buffer, own) || own.memory == buffer.leave.memory) continue;
      if (used.contains(own.id))
        throw Error(TSR_E_INVALID_ARGUMENT,
                    concat("offload policies let ", buffer_kind_name(own.kind), " ", own.name, " rest in ",
                           memory_name(buffer.leave.memory), " memory in one variant of the step, and in ",
                           memory_name(own.memory), " memory in variant ", step.variant,
                           "; a buffer rests in one memory: give the same answer for all variants"));
      own.memory = buffer.leave.memory;
    }
}

}  // namespace tessera::host
