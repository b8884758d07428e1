// Passes meet the program here: a snapshot they read, and an edit table that works on a private copy.
#pragma once

#include <cstdint>
#include <memory>

#include "passes/build_program.h"
#include "program/program.h"
#include "program/strategy_on_axis.h"

namespace tessera::host {

/// A program (or, before there is one, model, mesh and layout) as the arrays of a tsr_program_view. Borrows `program`,
/// which must not change while the view is used.
class ProgramSnapshot {
 public:
  ProgramSnapshot(const Program& program, int axis);
  ~ProgramSnapshot();
  ProgramSnapshot(const ProgramSnapshot&) = delete;
  ProgramSnapshot& operator=(const ProgramSnapshot&) = delete;
  const tsr_program_view& view() const;

 private:
  struct Arrays;
  std::unique_ptr<Arrays> arrays_;
};

/// Runs one pass. On success `program` is the edited copy; when the pass fails or its edits are not valid, `program` is
/// unchanged and an Error names strategy, axis and reason.
void run_pass(Program& program, const StrategyOnAxis& strategy, const DescribeOp& describe);

/// Asks one strategy for its layout and appends it to `program.layout`; entries for another axis are refused.
void add_layout(Program& program, const StrategyOnAxis& strategy);

}  // namespace tessera::host
