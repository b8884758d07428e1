// A program as passes see it.
#pragma once

#include <memory>

#include "guard/shown_memory.h"
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
  /// Shows the same program, equal in all but coordinates, layout and variant, for the rank that it is of now. Saves
  /// the cost of another snapshot: model, buffers and actions are read once.
  void show_rank_of(const Program& program);
  const tsr_program_view& view() const;
  /// Throws FAILED_PRECONDITION if what the view points to has changed since it was made, naming the plugin's function,
  /// which must have done that.
  void check_unchanged(const void* function) const;

 private:
  struct Arrays;
  std::unique_ptr<Arrays> arrays_;
};

}  // namespace tessera::host
