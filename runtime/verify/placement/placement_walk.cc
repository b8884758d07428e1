#include "verify/placement/placement_walk.h"

#include "verify/placement/placement_rules.h"

namespace tessera::host {

PlacementWalk::PlacementWalk(const Program& program, int axis, DiagnosticList& diagnostics)
    : program_(program), axis_(axis), diagnostics_(diagnostics), placements_(program) {
  enter_buffers();
  enter_run_words();
  enter_homes();
}

void PlacementWalk::run(const std::function<void(size_t action)>& after) {
  PlacementRules rules(program_, axis_, placements_, diagnostics_);
  for (size_t i = 0; i < program_.actions.size(); ++i) {
    rules.apply(i);
    if (after) after(i);
  }
}

void PlacementWalk::enter_buffers() {
  for (const Buffer& buffer : program_.buffers)
    placements_.write({buffer.id, 0, buffer.num_elements, 0, 0}, {entry_placement(buffer)});
}

/// Each rank sets its own before the step; CLIP sums them.
void PlacementWalk::enter_run_words() {
  if (const uint64_t squares = find_buffer(program_, TSR_BUFFER_ACCUMULATOR, kSquaresAccumulator))
    placements_.write({squares, TSR_ACCUMULATOR_LIMBS, TSR_SQUARES_WORDS - TSR_ACCUMULATOR_LIMBS, 0, 0},
                      Placement{PlacementKind::partial});
}

PlacementKind PlacementWalk::entry_placement(const Buffer& buffer) const {
  if (buffer.kind == TSR_BUFFER_INPUT)
    return program_.mesh->axes()[axis_].splits == TSR_SPLITS_BATCH ? PlacementKind::varying : PlacementKind::replicated;
  if (buffer.kind == TSR_BUFFER_SCALAR) return PlacementKind::replicated;
  if (!buffer.persistent) return PlacementKind::unknown;
  switch (buffer.kind) {
    case TSR_BUFFER_ACCUMULATOR:
      return PlacementKind::replicated;
    case TSR_BUFFER_HOME:
    case TSR_BUFFER_OPTIMIZER:
      return PlacementKind::zero;  // pads; enter_homes sets the rest
    default:
      return PlacementKind::unknown;  // a strategy's own
  }
}

void PlacementWalk::enter_homes() {
  for (const Home& home : program_.homes) {
    const std::vector<HomeRange> ranges = ranges_of(home);
    for (const auto& [role, place] : home.roles) {
      if (!place.buffer || !program_.buffer(place.buffer).persistent) continue;
      for (const HomeRange& range : ranges) {
        const Binding binding{place.buffer, place.offset + range.home_offset, range.num_elements, 0, 0};
        const Placement placement{layout_placement(program_, range.parameter, axis_, role)};
        placements_.write(binding, placement);
        homes_.push_back({&home, role, binding, placement});
      }
    }
  }
}

}  // namespace tessera::host
