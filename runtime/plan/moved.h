// What a rank keeps in each of its memories, and what offload policies make it move between them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "compile/compile.h"
#include "plan/memory_report.h"

namespace tessera::host {

/// The parts of a step that follow one another. No work of the update can hide a copy of the others, nor the other way
/// round, since `clip` needs all gradients and all updates need `clip`. What leaves in a forward comes back in its
/// backward, last out first in, so copies out and in do not run side by side either; but where micro-batches overlap
/// (have_overlapping_micro_batches) the forward of one hides copies of another's backward.
enum class MovePhase { forward, backward, update };
inline constexpr std::array kMovePhases = {MovePhase::forward, MovePhase::backward, MovePhase::update};
/// "forward", "backward", "update": the loss and recomputation belong to the backward.
std::string_view to_string(MovePhase phase);

/// Bytes copied by one rank.
struct MovedBytes {
  uint64_t in_bytes = 0;   ///< to device memory
  uint64_t out_bytes = 0;  ///< from it
  /// From and to files, in whole blocks; also counted above where device memory is the host's.
  uint64_t file_read_bytes = 0, file_written_bytes = 0;

  /// What has to pass where it is narrowest: files are read and written through one disk, links work in both directions
  /// at once.
  uint64_t narrowest_bytes() const;
};

/// What a program moves, by MovePhase.
struct Moved {
  std::array<MovedBytes, kMovePhases.size()> by_phase;
  std::array<double, kMovePhases.size()> operations{};  ///< of products and attention (num_operations)

  const MovedBytes& of(MovePhase phase) const { return by_phase[static_cast<size_t>(phase)]; }
  double operations_of(MovePhase phase) const { return operations[static_cast<size_t>(phase)]; }
  MovedBytes total() const;
};

/// Counts the copies that bring items to device memory and take them from it (offload/copies.h): one between a file and
/// host memory on the way counts as file bytes only, and what is staged for collectives and calls not at all. A copy on
/// the way to device memory belongs to the phase of the first action that uses it there, one from device memory to that
/// of the last action that used what it copies, wherever they are in the list.
Moved moved_in(const Program& program);
/// What one action moves; nothing for others than those copies.
MovedBytes moved_by(const Program& program, const Action& action);
/// By action: the phase of a copy as above; of others their own.
std::vector<MovePhase> move_phases_of(const Program& program);
/// Whether a forward follows a backward while the backward of another micro-batch is still to come, as in the 1F1B
/// schedule of a pipeline.
bool have_overlapping_micro_batches(const Program& program);
/// The step program that moves the most, the first of equals: strategies such as local SGD alternate between several.
const Program& most_moving_step(const RankPrograms& programs);
/// What it moves.
Moved moved_in_step(const RankPrograms& programs);

/// What a rank keeps in one memory.
struct PlaceUse {
  uint32_t memory = 0;  ///< TSR_MEMORY_*
  MemoryReport report;  ///< of the program that needs most of it
};
/// Of all memories that the programs use, ascending: device memory first.
std::vector<PlaceUse> places_of(const RankPrograms& programs);
/// Bytes of a memory other than the device's that what left device memory takes at most: the classes' own peaks,
/// without what staging takes.
uint64_t offloaded_bytes(const MemoryReport& report);

}  // namespace tessera::host
