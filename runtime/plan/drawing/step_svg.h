// A step as a drawing: the actions of every stream over time, and the memory alive.
#pragma once

#include <string>
#include <string_view>

#include "compile/compile.h"
#include "plan/simulate.h"
#include "trace/trace.h"

namespace tessera::host {

/// What is drawn; borrowed.
struct DrawnStep {
  const Simulation& simulation;  ///< of the first step program
  std::string source;            ///< of its costs: "by rates.json (...)"
  std::string caveat = {};       ///< empty: none
  const Trace* measured = nullptr;
};

/// SVG 1.1 of the first step program. For one rank of each class: a row per stream, below it the measured row if the
/// trace has that rank, and the live device memory, with one scale for all ranks. A color is a kind of action; idle
/// compute is marked. Every action has a tooltip. The job must have passed verify_job.
std::string step_svg(const Mesh& mesh, const JobPrograms& job, const DrawnStep& drawn);

/// Whether a file with this beginning is such a drawing.
bool begins_like_step_svg(std::string_view begin);

}  // namespace tessera::host
