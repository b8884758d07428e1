// Pipeline parallelism: the ranks of the axis are stages, each of which runs one or more virtual stages (parts of the
// model) for all micro-batches. Values at the boundaries, and their gradients, are sent from stage to stage.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partition.h"
#include "schedule.h"
#include "tessera/strategy.hpp"

namespace tessera::pipeline {

class Pipeline final : public Strategy {
 public:
  static constexpr std::string_view kName = "pipeline";
  Pipeline(std::string_view axis, std::span<const tsr_option_value> options);

  /// A parameter is on the stage that uses it; one that several stages use (a tied embedding) is on all of them, and
  /// the host sums its gradient.
  void layout(const ProgramView& view, const LayoutSink& sink) const override;
  /// Throws INVALID_ARGUMENT for a schedule or cut that does not fit the job, UNSUPPORTED for actions of other passes.
  void lower(const ProgramView& view, const Edit& edit) const override;
  bool depends_on_coordinate() const override { return true; }

 private:
  Shape shape_of(const ProgramView& view) const;

  Schedule schedule_;
  std::string cut_;
  int num_chunks_;
};

/// The stages, ascending, that use each parameter.
std::vector<std::vector<int32_t>> stages_of_parameters(const ProgramView& view,
                                                       std::span<const VirtualStage> virtual_stages);

}  // namespace tessera::pipeline
