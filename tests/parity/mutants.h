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

/// Of a finished program: each action removed, doubled, after its neighbour; each binding to each buffer of the same
/// size, dtype and memory, and to other elements; each attribute to another value.
std::vector<Mutant> mutants_of(const Program& program);

}  // namespace tessera::testing
