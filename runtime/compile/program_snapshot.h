// A program as passes see it.
#pragma once

#include <memory>

#include "program/program.h"
#include "tessera/strategy.h"

namespace tessera::host {

/// A program (or, before there is one, model, mesh and layout) as the arrays of a tsr_program_view. Borrows `program`,
/// which must not change while the view is used.
class ProgramSnapshot {
 public:
  /// `axis` TSR_WORLD_AXIS and `strategy` (an index in the program's) -1: for a policy.
  ProgramSnapshot(const Program& program, int axis, int strategy = -1);
  ~ProgramSnapshot();
  ProgramSnapshot(const ProgramSnapshot&) = delete;
  ProgramSnapshot& operator=(const ProgramSnapshot&) = delete;
  const tsr_program_view& view() const;

 private:
  struct Arrays;
  std::unique_ptr<Arrays> arrays_;
};

}  // namespace tessera::host
