// What compilation makes for one rank.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/homes_fingerprint.h"
#include "memory/memory_plan.h"
#include "model/model.h"
#include "program/program.h"

namespace tessera::host {

/// One rank's programs over the same persistent buffers: init, the step's variants if it trains, and eval if requested.
struct RankPrograms {
  std::shared_ptr<const Model> model;  ///< the rank's local model, which the programs borrow
  Program init;
  std::vector<Program> steps;
  std::optional<Program> eval;
  std::vector<MemoryPlan> memory;  ///< in the order of all()
  HomesFingerprint homes;          ///< after the strategies' passes
  std::string places;              ///< of the homes of all programs (fingerprint_of_places), then

  std::vector<const Program*> all() const;
  /// The first after init: a step, or eval where there are none.
  const Program& first() const { return steps.empty() ? *eval : steps[0]; }
  /// The plan of first().
  const MemoryPlan& first_memory() const { return memory[1]; }
  /// Bytes of the arena in one memory that holds every program.
  uint64_t arena_bytes(uint32_t memory_kind) const;
};

}  // namespace tessera::host
