// The first half of the pipeline in compile.cc: up to the last strategy's pass. Internal to compile/.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/compile.h"

namespace tessera::host {

/// One rank's programs as the strategies leave them; the host has not finished them yet.
struct LoweredPrograms {
  std::shared_ptr<const Model> model;  ///< the rank's local model, which the programs borrow
  Program init;
  std::vector<Program> steps;
  std::optional<Program> eval;
};

/// Throws what the passes throw.
LoweredPrograms lower_rank(const CompileInput& input, const Coordinates& coordinates);

/// Equal for two ranks of one job whose lowered programs are: a SHA-256 of all that a text of them would have.
std::string digest_of(const LoweredPrograms& programs);

}  // namespace tessera::host
