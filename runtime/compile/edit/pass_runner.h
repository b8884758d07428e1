// Runs strategies on a program: they read a snapshot of it and edit a private copy through a table of functions.
#pragma once

#include <map>
#include <span>
#include <utility>

#include "compile/edit/program_snapshot.h"
#include "passes/build_program.h"
#include "program/program.h"
#include "program/strategy_on_axis.h"

namespace tessera::host {

/// Runs one pass. When it fails or an edit is invalid, an Error names strategy, axis and reason, and `program` is
/// unchanged.
void run_pass(Program& program, const StrategyOnAxis& strategy, const DescribeOp& describe);

/// A program before the passes, which is one for many ranks: only coordinates, layout and variant differ. What a
/// strategy is shown of it is made once.
class BaseProgram {
 public:
  explicit BaseProgram(Program program) : program_(std::move(program)) {}
  BaseProgram(const BaseProgram&) = delete;  // what is shown borrows the program
  BaseProgram& operator=(const BaseProgram&) = delete;
  void move_to(const Coordinates& coordinates, const Layout& layout, uint32_t variant);
  const Program& program() const { return program_; }
  /// A copy after these passes, one after another; throws as run_pass.
  Program after_passes(std::span<const StrategyOnAxis> strategies, const DescribeOp& describe);
  /// Appends the layout that a strategy declares; entries for another axis are refused.
  void add_layout(const StrategyOnAxis& strategy);

 private:
  const ProgramSnapshot& shown_to(const StrategyOnAxis& strategy);

  Program program_;
  std::map<const tsr_strategy*, ProgramSnapshot> shown_;  // to each strategy that was asked
};

}  // namespace tessera::host
