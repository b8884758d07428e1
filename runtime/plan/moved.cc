// Two walks over the list: forwards for the phase of the last use of each buffer, which tells that of an eviction, and
// backwards for the phase of the next use, which tells that of a fetch. Cost: linear in the bindings.
//
//     forward h.0      r %30              forward
//     evict            copy %30 to %61    forward: the last use of %30 before it
//     fetch            copy %61 to %113   backward: the next use of %113 after it
//     backward h.0     r %113             backward
//
// Where a copy is in the list says nothing of its phase: a fetch may be issued long before its use.

#include "plan/moved.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "offload/copies.h"
#include "plan/job_plan.h"
#include "plan/timeline.h"
#include "program/lower_op.h"
#include "storage/block_sums.h"

namespace tessera::host {
namespace {

/// A copy on the way to device memory, or from it.
struct Movement {
  bool is_in = false;
  uint64_t near = 0, far = 0;  // buffers: that on the device's side, and the other
  MovedBytes bytes;
};

/// What the store moves for a range of a file: whole blocks. Buffers in files begin on a block.
uint64_t file_bytes(const Binding& range, uint64_t element_bytes) {
  const uint64_t begin = range.offset * element_bytes, end = begin + range.num_elements * element_bytes;
  return whole_blocks(end) - begin / kBlockBytes * kBlockBytes;
}

std::optional<Movement> movement_of(const Program& program, const Action& action) {
  if (!is_movement(program, action)) return std::nullopt;
  const Binding* from = action.find(kSource);
  const Binding* to = action.find(kDestination);
  const Buffer &source = program.buffer(from->buffer), &destination = program.buffer(to->buffer);
  const uint64_t element_bytes = TSR_NUM_BYTES(source.dtype, 1), num_bytes = from->num_elements * element_bytes;
  Movement movement;
  // Of the two halves of a copy between a device and a file, by way of the host, each has the direction of the whole.
  movement.is_in = destination.memory == TSR_MEMORY_DEVICE || source.memory == TSR_MEMORY_FILE;
  movement.near = movement.is_in ? destination.id : source.id;
  movement.far = movement.is_in ? source.id : destination.id;
  if (destination.memory == TSR_MEMORY_DEVICE) movement.bytes.in_bytes = num_bytes;
  if (source.memory == TSR_MEMORY_DEVICE) movement.bytes.out_bytes = num_bytes;
  if (source.memory == TSR_MEMORY_FILE) movement.bytes.file_read_bytes = file_bytes(*from, element_bytes);
  if (destination.memory == TSR_MEMORY_FILE) movement.bytes.file_written_bytes = file_bytes(*to, element_bytes);
  return movement;
}

/// One walk over the list, which finds the phases of the copies of one direction.
class Walk {
 public:
  Walk(const Program& program, bool finds_in, std::vector<MovePhase>& phases)
      : program_(program), finds_in_(finds_in), phases_(phases) {}

  void visit(size_t index) {
    const Action& action = program_.actions[index];
    const std::optional<Movement> movement = movement_of(program_, action);
    if (!movement) {
      for (const Binding& b : action.bindings)
        phase_of_use_[b.buffer] = phases_[index];
    } else if (movement->is_in == finds_in_) {
      phases_[index] = phase_of_use_[movement->near];
      phase_of_use_[movement->far] = phases_[index];  // the other half of a copy by way of a bounce buffer
    }
  }

 private:
  const Program& program_;
  const bool finds_in_;
  std::vector<MovePhase>& phases_;
  std::unordered_map<uint64_t, MovePhase> phase_of_use_;  // by buffer: of the use seen last
};

MovePhase move_phase(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return MovePhase::forward;
    case Phase::backward:
      return MovePhase::backward;
    case Phase::optimizer:
      break;
  }
  return MovePhase::update;
}

void add(MovedBytes& sum, const MovedBytes& bytes) {
  sum.in_bytes += bytes.in_bytes;
  sum.out_bytes += bytes.out_bytes;
  sum.file_read_bytes += bytes.file_read_bytes;
  sum.file_written_bytes += bytes.file_written_bytes;
}

}  // namespace

std::string_view to_string(MovePhase phase) {
  switch (phase) {
    case MovePhase::forward:
      return "forward";
    case MovePhase::backward:
      return "backward";
    case MovePhase::update:
      break;
  }
  return "update";
}

uint64_t MovedBytes::narrowest_bytes() const {
  return std::max({in_bytes, out_bytes, file_read_bytes + file_written_bytes});
}

MovedBytes Moved::total() const {
  MovedBytes sum;
  for (const MovedBytes& bytes : by_phase)
    add(sum, bytes);
  return sum;
}

MovedBytes moved_by(const Program& program, const Action& action) {
  const auto movement = movement_of(program, action);
  return movement ? movement->bytes : MovedBytes();
}

std::vector<MovePhase> move_phases_of(const Program& program) {
  std::vector<MovePhase> phases;
  for (const Phase phase : phases_of(program))
    phases.push_back(move_phase(phase));
  // Neither walk reads what the other writes: each takes the phases of actions that move nothing as they are.
  Walk forwards(program, false, phases), backwards(program, true, phases);
  for (size_t i = 0; i < program.actions.size(); ++i)
    forwards.visit(i);
  for (size_t i = program.actions.size(); i-- > 0;)
    backwards.visit(i);
  return phases;
}

bool have_overlapping_micro_batches(const Program& program) {
  std::set<int> forwarded;  // and not yet in their backward
  bool was_backward = false;
  for (const Action& action : program.actions) {
    if (action.kind == TSR_ACTION_FORWARD) {
      if (was_backward && !forwarded.empty()) return true;
      was_backward = false;
      forwarded.insert(action.micro_batch);
    } else if (is_backward(action.kind)) {
      was_backward = true;
      forwarded.erase(action.micro_batch);
    }
  }
  return false;
}

Moved moved_in(const Program& program) {
  Moved moved;
  const std::vector<MovePhase> phases = move_phases_of(program);
  for (size_t i = 0; i < program.actions.size(); ++i) {
    const Action& action = program.actions[i];
    const auto phase = static_cast<size_t>(phases[i]);
    add(moved.by_phase[phase], moved_by(program, action));
    if (is_compute(action.kind)) moved.operations[phase] += num_operations(op_of(program, action));
  }
  return moved;
}

const Program& most_moving_step(const RankPrograms& programs) {
  return *std::ranges::max_element(programs.steps, {}, [](const Program& step) {
    const MovedBytes moved = moved_in(step).total();
    return moved.in_bytes + moved.out_bytes;
  });
}

Moved moved_in_step(const RankPrograms& programs) {
  return moved_in(most_moving_step(programs));
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
