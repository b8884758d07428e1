// Holds homes against the layout: what ranks own together is each parameter once.
#pragma once

#include <functional>

#include "program/program.h"
#include "verify/diagnostics.h"

namespace tessera::host {

/// Of the rank of `program`, and those that differ from it on an axis that splits a parameter; `homes_of` gives a
/// program of any rank that has its homes.
void verify_homes(const Program& program, const std::function<const Program&(int rank)>& homes_of,
                  DiagnosticList& diagnostics);

}  // namespace tessera::host
