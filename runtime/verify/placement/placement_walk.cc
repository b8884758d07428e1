// Applies the rules of all actions to a program, from the placements with which it begins. Under ddp on dp=2:
//
//     before    %1 = home wte is replicated, %21 = input tokens mb=0 varying, all transient buffers unknown
//     20        loss loss mb=0  ...  w %61+28928:3072 g:weight  ...         %61[28928:32000] is partial
//     42        all_reduce group=dp reduce=sum  a %61 dst                   partial -> replicated
//     73        optimizer home=wte.weight predicated  a %1 dst  ...         %1 stays replicated
//
// Invariant: every element has one placement at any time. It is unknown, which fits every rule, until something places
// it, so a strategy's own persistent buffers cause no diagnostic before they are written.
//
// Cost: linear in the bindings, up to the pieces that buffers fall into, and a search of the layout for each range and
// role of a home.

#include "verify/placement/placement_walk.h"

#include "verify/placement/placement_rules.h"

namespace tessera::host {

namespace {

/// Neither the same on all ranks, nor unknown.
constexpr uint32_t kOfOneRank =
    ~(bit(PlacementKind::unknown) | bit(PlacementKind::zero) | bit(PlacementKind::replicated) |
      bit(PlacementKind::gathered) | bit(PlacementKind::bound));

}  // namespace

PlacementWalk::PlacementWalk(const Program& program, int axis, DiagnosticList& diagnostics,
                             const std::vector<OwnRange>& local)
    : program_(program), axis_(axis), diagnostics_(diagnostics), placements_(program) {
  enter_buffers();
  enter_run_words();
  enter_homes();
  for (const OwnRange& range : local)
    placements_.write({range.buffer, range.begin, range.end - range.begin, 0, 0}, {PlacementKind::local});
}

std::vector<OwnRange> PlacementWalk::local_ranges() {
  std::vector<OwnRange> ranges;
  for (const Buffer& buffer : program_.buffers) {
    if (!buffer.persistent || buffer.kind != TSR_BUFFER_PLUGIN) continue;
    for (const PlacementPart& part : placements_.read({buffer.id, 0, buffer.num_elements, 0, 0}))
      if (bit(part.placement.kind) & kOfOneRank)
        ranges.push_back({buffer.id, part.offset, part.offset + part.num_elements});
  }
  return ranges;
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
