// Two walks over the list: forwards for the phase of the last use of each buffer, which tells that of an eviction, and
// backwards for the phase of the next use, which tells that of a fetch. Cost: linear in the bindings.

#include "plan/moved.h"

#include <optional>
#include <set>
#include <unordered_map>

#include "offload/copies.h"
#include "plan/job_plan.h"
#include "plan/timeline.h"

namespace tessera::host {
namespace {

/// A copy between device memory and another one.
struct Movement {
  bool is_in = false;
  uint64_t device_buffer = 0;
  uint64_t num_bytes = 0;
};

std::optional<Movement> movement_of(const Program& program, const Action& action) {
  if (!is_movement(program, action)) return std::nullopt;
  const Binding* from = action.find(TSR_SLOT(TSR_ROLE_SOURCE, 0));
  const Binding* to = action.find(TSR_SLOT(TSR_ROLE_DESTINATION, 0));
  const Buffer &source = program.buffer(from->buffer), &destination = program.buffer(to->buffer);
  const bool is_in = destination.memory == TSR_MEMORY_DEVICE;
  if (!is_in && source.memory != TSR_MEMORY_DEVICE) return std::nullopt;  // between a file and a bounce buffer
  return Movement{is_in, is_in ? destination.id : source.id, from->num_elements * TSR_DTYPE_BYTES(source.dtype)};
}

/// What has been seen of one direction of the list.
class Walk {
 public:
  Walk(const Program& program, bool counts_in)
      : program_(program), counts_in_(counts_in), phases_(phases_of(program)) {}

  void visit(size_t index, Moved& moved) {
    const Action& action = program_.actions[index];
    const std::optional<Movement> movement = movement_of(program_, action);
    if (!movement) {
      for (const Binding& b : action.bindings)
        phase_of_use_[b.buffer] = phases_[index] == Phase::optimizer ? MovePhase::update : MovePhase::forward_backward;
      return;
    }
    if (movement->is_in != counts_in_) return;
    MovedBytes& bytes = moved.by_phase[static_cast<size_t>(phase_of_use_[movement->device_buffer])];
    (counts_in_ ? bytes.in_bytes : bytes.out_bytes) += movement->num_bytes;
  }

 private:
  const Program& program_;
  const bool counts_in_;
  const std::vector<Phase> phases_;
  std::unordered_map<uint64_t, MovePhase> phase_of_use_;  // by buffer: of the use seen last
};

}  // namespace

std::string_view to_string(MovePhase phase) {
  return phase == MovePhase::update ? "update" : "forward, backward";
}

MovedBytes Moved::total() const {
  MovedBytes sum;
  for (const MovedBytes& bytes : by_phase) {
    sum.in_bytes += bytes.in_bytes;
    sum.out_bytes += bytes.out_bytes;
  }
  return sum;
}

Moved moved_in(const Program& program) {
  Moved moved;
  Walk forwards(program, false), backwards(program, true);
  for (size_t i = 0; i < program.actions.size(); ++i)
    forwards.visit(i, moved);
  for (size_t i = program.actions.size(); i-- > 0;)
    backwards.visit(i, moved);
  return moved;
}

Moved moved_in_step(const RankPrograms& programs) {
  Moved most;
  const auto sum = [](const Moved& moved) { return moved.total().in_bytes + moved.total().out_bytes; };
  for (const Program& step : programs.steps)
    if (const Moved moved = moved_in(step); sum(moved) > sum(most)) most = moved;
  return most;
}

std::vector<PlaceUse> places_of(const RankPrograms& programs) {
  std::set<uint32_t> memories = {TSR_MEMORY_DEVICE};
  for (const MemoryPlan& plan : programs.memory)
    for (const auto& [memory, use] : plan.use)
      if (use.arena_bytes > 0) memories.insert(memory);
  std::vector<PlaceUse> places;
  for (const uint32_t memory : memories)
    places.push_back({memory, largest_program(programs, memory).memory});
  return places;
}

uint64_t offloaded_bytes(const MemoryReport& report) {
  return report.most.total() - report.most[MemoryClass::communication];
}

}  // namespace tessera::host
