// Operands for ops that are measured one by one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "exec/device.h"
#include "program/program.h"

namespace tessera::host {

/// Memory for the operands of a program's ops, without the program's own plan: much less than its arena, since no value
/// has to live until its backward. Inputs and scalars are what a step may have; everything else is small and positive,
/// and changes as ops write it. All functions: [control-thread].
class OpMemory {
 public:
  /// `actions` are indices of the actions that will be given operands. Borrows device and program.
  OpMemory(const Device& device, const Program& program, std::vector<uint32_t> actions);

  /// The operands of one of the actions, in the order of its bindings.
  std::vector<void*> operands(const Action& action) const;
  /// Sets all of it to what it was at the start; the stream has then done so.
  void reset(tsr_stream* stream) const;
  /// Enqueues copies that restore inputs and scalars to their values at the last reset().
  void restore_fixed(tsr_stream* stream) const;

 private:
  using Place = std::pair<uint64_t, uint64_t>;  // of a binding: its action's id, and its slot

  bool is_fixed(const Buffer& buffer) const;
  void place_fixed(const Buffer& buffer);
  void place(const Action& action);
  std::vector<std::byte> contents(const Buffer& buffer) const;

  const Device& device_;
  const Program& program_;
  std::map<uint64_t, uint64_t> fixed_;  // by buffer: inputs, scalars, accumulators, each with memory of its own
  std::map<Place, uint64_t> shared_;    // of all other operands; those of one action do not overlap
  uint64_t fixed_bytes_ = 0, shared_bytes_ = 0;
  std::optional<Arena> fixed_arena_, fixed_copy_, shared_arena_;
};

}  // namespace tessera::host
