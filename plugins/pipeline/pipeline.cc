// Pipeline parallelism: the layout and the order of work. The model is partitioned into virtual stages (partition.cc),
// a schedule orders each stage's forwards and backwards (schedule.cc), and a pass over the base program removes the
// work of other stages and inserts messages (stage_pass.cc).

#include "pipeline.h"

#include <algorithm>
#include <string_view>

#include "stage_pass.h"

namespace tessera::pipeline {

Pipeline::Pipeline(std::string_view, std::span<const tsr_option_value> options)
    : schedule_(parse_schedule(view(option(options, "schedule").s))),
      cut_(view(option(options, "cut").s)),
      num_chunks_(static_cast<int>(option(options, "virtual-stages").i)) {}

Shape Pipeline::shape_of(const ProgramView& view) const {
  const Shape shape{view.axis().num_ranks, num_chunks_, static_cast<int>(view.raw.num_micro_batches)};
  check_fits(schedule_, shape);
  return shape;
}

std::vector<std::vector<int32_t>> stages_of_parameters(const ProgramView& view,
                                                       std::span<const VirtualStage> virtual_stages) {
  const int num_stages = view.axis().num_ranks;
  std::vector<std::vector<int32_t>> stages(view.parameters().size());
  for (size_t v = 0; v < virtual_stages.size(); ++v)
    for (int s = virtual_stages[v].begin; s < virtual_stages[v].end; ++s) {
      const tsr_segment& segment = view.segments()[static_cast<size_t>(s)];
      for (const int32_t p : std::span(segment.parameters, segment.num_parameters))
        stages[static_cast<size_t>(p)].push_back(static_cast<int32_t>(v) % num_stages);
    }
  for (auto& of_parameter : stages) {
    std::ranges::sort(of_parameter);
    of_parameter.erase(std::unique(of_parameter.begin(), of_parameter.end()), of_parameter.end());
  }
  return stages;
}

void Pipeline::layout(const ProgramView& view, const LayoutSink& sink) const {
  const Shape shape = shape_of(view);
  if (shape.num_stages == 1) return;
  const auto stages = stages_of_parameters(view, partition_model(view, cut_, shape.num_stages * shape.num_chunks));
  for (size_t p = 0; p < stages.size(); ++p) {
    tsr_layout_entry entry{};
    entry.parameter = static_cast<int32_t>(p);
    entry.axis = view.raw.axis;
    entry.roles = TSR_ALL_HOME_ROLES;
    entry.kind = stages[p].size() == 1 ? TSR_LAYOUT_SPLIT : TSR_LAYOUT_REPLICATED;
    entry.dim = -1;
    entry.blocks = entry.parts = 1;
    entry.coordinates = stages[p].data();
    entry.num_coordinates = static_cast<uint32_t>(stages[p].size());
    entry.padded_size = view.parameters()[p].num_elements;
    sink.add_entry(entry);
  }
}

void Pipeline::lower(const ProgramView& view, const Edit& edit) const {
  const Shape shape = shape_of(view);
  // Not partition_model: `lower` sees this rank's part of the model, in which tensor parallelism may have changed the
  // costs. The layout decides where the parameters are.
  const auto virtual_stages = virtual_stages_of_layout(view, shape.num_stages * shape.num_chunks);
  const int stage = view.axis().coordinate;
  StagePass pass(view, edit, schedule_, shape, virtual_stages);
  pass.drop_homes(stages_by_layout(view));
  if (view.raw.purpose == TSR_PURPOSE_STEP) pass.run(step_schedule(schedule_, shape, stage));
  if (view.raw.purpose == TSR_PURPOSE_EVAL) pass.run(eval_schedule(shape));
  edit.collect_garbage();
}

}  // namespace tessera::pipeline
