// Pipeline parallel: the axis's ranks are stages, each of which runs a part of the model's segments for all
// micro-batches. Values that enter a part, and their gradients, are sent from stage to stage.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule.h"
#include "stages.h"
#include "tessera/strategy.hpp"

namespace tessera::pipeline {

class Pipeline final : public Strategy {
 public:
  static constexpr std::string_view kName = "pipeline";
  Pipeline(std::string_view axis, std::span<const tsr_option_value> options);

  /// A parameter belongs to the stage that uses it; one that several use (a tied embedding) is on all of these, and the
  /// host completes its gradient.
  void layout(const ProgramView& view, const tsr_layout_sink& sink) const override;
  /// Throws INVALID_ARGUMENT for a schedule or a cut that does not fit, UNSUPPORTED for actions it does not know.
  void lower(const ProgramView& view, const Edit& edit) const override;
  bool depends_on_coordinate() const override { return true; }

 private:
  Shape shape_of(const ProgramView& view) const;

  Schedule schedule_;
  std::string cut_;
  int num_chunks_;
};

/// The stages, ascending, that use each parameter.
std::vector<std::vector<int32_t>> stages_of_parameters(const ProgramView& view, std::span<const Part> parts);

}  // namespace tessera::pipeline
