// Roughly how long an action takes: what `plan --svg` draws with.
#pragma once

#include "program/program.h"

namespace tessera::host {

/// Of a machine, per second.
struct MachineRates {
  double operations = 100e12;  ///< of matrix products
  double memory_bytes = 1e12;
  double link_bytes = 100e9;  ///< that one rank sends
};

/// Floating-point operations of matrix products and attention (which is causal: half of the pairs); a backward has
/// twice those of its forward, either half of it the same.
double num_operations(const tsr_op& op);

/// Of a collective: what this rank sends, over the link. Of other actions: the longer of their operations and of
/// passing once over all they bind.
double estimated_seconds(const Program& program, const Action& action, const MachineRates& rates);

}  // namespace tessera::host
