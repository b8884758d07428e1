// The first half of the pipeline in compile.cc: up to the last strategy's pass. Internal to compile/.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/compile_input.h"

namespace tessera::host {

/// One rank's programs as the strategies leave them; the host has not finished them yet.
struct LoweredPrograms {
  std::shared_ptr<const Model> model;  ///< the rank's local model, which the programs borrow
  Program init;
  std::vector<Program> steps;
  std::optional<Program> eval;
};

/// Of one job; borrows its input. Ranks share the model where they have the same part of it, and its base programs.
class Lowering {
 public:
  explicit Lowering(const CompileInput& input) : input_(input), order_(pass_order(input.strategies)) {}
  /// Throws what the passes throw.
  LoweredPrograms lower(const Coordinates& coordinates);

 private:
  /// A part of the model, and what a rank would run of it if only the batch were split.
  struct Part {
    std::shared_ptr<const Model> model;
    std::map<uint32_t, Program> base;  // by purpose
  };
  Part& part_at(const Coordinates& coordinates, const Layout& layout);
  Program lower(Part& part, const Coordinates& coordinates, const Layout& layout, uint32_t purpose, uint32_t variant);

  const CompileInput& input_;
  const std::vector<StrategyOnAxis> order_;
  std::map<Coordinates, Part> parts_;  // by coordinates on axes that split tensors, 0 on the others
};

/// Equal for two ranks of one job whose lowered programs are: a SHA-256 of all that a text of them would have.
std::string digest_of(const LoweredPrograms& programs);

}  // namespace tessera::host
