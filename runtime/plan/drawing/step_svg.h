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

/// SVG 1.1 of the first step program: for one rank of each class a row for each stream, under it what a run did where
/// there is a trace of that rank, and under them the device memory alive, which has one scale for all ranks. A colour
/// is a kind of action; idle compute is marked. Every action has a tooltip. The job must have passed verify_job.
std::string step_svg(const Mesh& mesh, const JobPrograms& job, const DrawnStep& drawn);

/// Whether a file that begins like this is such a drawing.
bool begins_like_step_svg(std::string_view begin);

}  // namespace tessera::host
