// One-line faults of step programs: what a pass could do wrong, one action, binding or attribute at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "program/program.h"

namespace tessera::testing {
using namespace host;

struct Mutant {
  std::string kind;  ///< "removed", "doubled", ...
  std::string what;  ///< which action, and what it is now
  std::function<void(Program&)> change;
};

/// Of a finished program: each action removed, doubled, after its neighbor; each binding to each buffer of the same
/// size, dtype and memory, to other elements, in another mode, or to what another binding has; each attribute, kind and
/// stream to another value; a scale or zeros after each that writes. And add_table_mutants.
std::vector<Mutant> mutants_of(const Program& program);

/// What actions mean through tables: the configuration of the step, buffers, inputs, homes and their pieces, the
/// layout.
void add_table_mutants(const Program& program, std::vector<Mutant>& mutants);

}  // namespace tessera::testing
