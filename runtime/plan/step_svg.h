// A step as a drawing: what every stream of every rank does when, and how much memory is alive.
#pragma once

#include <string>
#include <string_view>

#include "compile/compile.h"

namespace tessera::host {

/// SVG 1.1 of the first step program, simulated with MachineRates: of one rank of each class, a row for each stream and
/// the device memory alive under them. Colours stand for kinds of work, comm streams have their own; idle compute is
/// marked. Every action has a tool tip. The job has passed verify_job.
std::string step_svg(const Mesh& mesh, const JobPrograms& job);

/// Does a file that begins like this hold such a drawing?
bool begins_like_step_svg(std::string_view begin);

}  // namespace tessera::host
