// The first half of the pipeline in compile.cc: up to the last strategy's pass. Internal to compile/.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/compile_input.h"
#include "compile/declared_layout.h"
#include "compile/edit/pass_runner.h"

namespace tessera::host {

/// One rank's programs as the strategies leave them; the host has not finished them yet.
struct LoweredPrograms {
  std::shared_ptr<const Model> model;  ///< the rank's local model, which the programs borrow
  Program init;
  std::vector<Program> steps;
  std::optional<Program> eval;

  std::vector<const Program*> all() const;
};

/// The programs of one rank, `Programs` of either stage: init, steps, eval. Borrowed.
template <class Programs>
std::vector<const Program*> programs_of(const Programs& rank) {
  std::vector<const Program*> all{&rank.init};
  for (const Program& step : rank.steps)
    all.push_back(&step);
  if (rank.eval) all.push_back(&*rank.eval);
  return all;
}

/// Lowers the ranks of one job; borrows its input. Ranks with the same part of the model share it and its base
/// programs.
class Lowering {
 public:
  explicit Lowering(const CompileInput& input)
      : input_(input),
        order_(pass_order(input.strategies)),
        layout_(input.model, input.mesh, input.step_config, input.strategies, order_) {}
  /// Throws what the passes throw.
  LoweredPrograms lower(const Coordinates& coordinates);

 private:
  /// A part of the model, with the programs that a rank would run if only the batch were split.
  struct Part {
    std::shared_ptr<const Model> model;
    std::map<uint32_t, BaseProgram> base;  // by purpose
  };
  Part& part_at(const Coordinates& coordinates, const Layout& layout);
  Program lower(Part& part, const Coordinates& coordinates, const Layout& layout, uint32_t purpose, uint32_t variant);

  const CompileInput& input_;
  const std::vector<StrategyOnAxis> order_;
  DeclaredLayout layout_;
  std::optional<uint32_t> num_steps_;  // variants of the step program; asked once
  std::map<Coordinates, Part> parts_;  // by coordinates on axes that split tensors, 0 on the others
};

/// A SHA-256 of everything that the text of the lowered programs contains: equal for two ranks of one job if their
/// programs are.
std::string digest_of(const LoweredPrograms& programs);

}  // namespace tessera::host
