// A step as a drawing: the actions of every stream over time, and the memory alive.
#pragma once

#include <string>
#include <string_view>

#include "compile/compile.h"

namespace tessera::host {

/// SVG 1.1 of the first step program, simulated with MachineRates: for one rank of each class a row for each stream,
/// and under them the device memory alive. A colour is a kind of work, or a comm stream; idle compute is marked. Every
/// action has a tooltip. The job must have passed verify_job.
std::string step_svg(const Mesh& mesh, const JobPrograms& job);

/// Whether a file that begins like this is such a drawing.
bool begins_like_step_svg(std::string_view begin);

}  // namespace tessera::host
