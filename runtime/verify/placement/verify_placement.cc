// Checks placements, axis by axis: it interprets the program on placements (placement.cc) instead of numbers. It finds
// what no other check can: mistakes that all ranks make alike, which race with nothing and match perfectly.
//
//     walk      placement_walk.h, from what the layout says of each home
//     leave     every persistent home must have the placement that it entered with, and the loss must be summed
//
// The last condition makes steps repeatable: a step that takes replicated values and leaves shards would train on
// garbage from the second step on. For example, zero3 stage 2 without its broadcasts at the end:
//
//     rank 0 home wte.weight: its value, home wte, is the same on all ranks of dp before the program, and after it
//     split over dp
//
// Unknown contents (a strategy's own buffers, other ranks' slices on some axes) fit everything, so the check can miss
// mistakes in them. Cost: linear in the bindings, up to pieces, for each axis of more than one rank.

#include <algorithm>
#include <utility>
#include <vector>

#include "verify/diagnostics.h"
#include "verify/placement/placement_walk.h"
#include "verify/verify.h"

namespace tessera::host {
namespace {

class AxisVerifier {
 public:
  AxisVerifier(const Program& program, int axis, DiagnosticList& diagnostics)
      : program_(program), axis_(axis), diagnostics_(diagnostics) {}

  /// A strategy's own buffers begin a step with what the one before has left in them: until that stays as it is.
  void run() {
    std::vector<OwnRange> local, left = run_after({});
    while (program_.purpose == TSR_PURPOSE_STEP && diagnostics_.empty() && left != local) {
      local = left;
      left = run_after(local);
      left.insert(left.end(), local.begin(), local.end());  // it only grows
      left = joined(std::move(left));
    }
  }

 private:
  /// Returns what the step leaves of one rank alone.
  std::vector<OwnRange> run_after(const std::vector<OwnRange>& local) {
    PlacementWalk walk(program_, axis_, diagnostics_, local);
    walk.run();
    check_homes(walk);
    check_loss(walk);
    return joined(walk.local_ranges());
  }

  /// Ascending, without overlaps.
  static std::vector<OwnRange> joined(std::vector<OwnRange> ranges) {
    std::ranges::sort(ranges, {}, [](const OwnRange& r) { return std::pair(r.buffer, r.begin); });
    std::vector<OwnRange> result;
    for (const OwnRange& range : ranges)
      if (!result.empty() && result.back().buffer == range.buffer && range.begin <= result.back().end)
        result.back().end = std::max(result.back().end, range.end);
      else
        result.push_back(range);
    return result;
  }

  const Axis& axis() const { return program_.mesh->axes()[axis_]; }

  /// Divergent parameters may leave equal: that is what averaging them is for.
  void check_homes(PlacementWalk& walk) {
    for (const EnteredHome& entered : walk.homes())
      for (const PlacementPart& part : walk.read(entered.range)) {
        const PlacementKind before = entered.placement.kind, after = part.placement.kind;
        if (part.placement.is_neutral()) continue;
        const bool averages = before == PlacementKind::varying && after == PlacementKind::replicated;
        if ((after == before || averages) && !part.placement.is_scaled()) continue;
        diagnostics_.add("rank " + std::to_string(program_.mesh->rank(program_.coordinates)) + " home " +
                         entered.home->name + ": its " + home_role_name(entered.role) + ", " +
                         range_text(program_, entered.range) + ", is " +
                         placement_text(entered.placement, axis().name) + " before the program, and after it " +
                         placement_text(part.placement, axis().name) + advice(before, after));
        break;
      }
  }

  static const char* advice(PlacementKind before, PlacementKind after) {
    if (before == PlacementKind::replicated && after == PlacementKind::shard)
      return "; gather it after its update, or let the layout say that it is split";
    if (before == PlacementKind::shard && after == PlacementKind::replicated)
      return "; keep a part on each rank, or let the layout say nothing of it";
    return "";
  }

  void check_loss(PlacementWalk& walk) {
    check_sum(walk, kLossAccumulator, "a loss");
    check_sum(walk, kCorrectCount, "a count of correct predictions");
  }

  void check_sum(PlacementWalk& walk, std::string_view name, const char* what) {
    const uint64_t sum = find_buffer(program_, TSR_BUFFER_ACCUMULATOR, name);
    if (!sum) return;
    for (const PlacementPart& part : walk.read({sum, 0, program_.buffer(sum).num_elements, 0, 0}))
      if (part.placement.kind == PlacementKind::partial) {
        diagnostics_.add("rank " + std::to_string(program_.mesh->rank(program_.coordinates)) + " ends with " + what +
                         " that is " + placement_text(part.placement, axis().name));
        return;
      }
  }

  const Program& program_;
  const int axis_;
  DiagnosticList& diagnostics_;
};

}  // namespace

Diagnostics verify_placement(const Program& program) {
  DiagnosticList diagnostics;
  for (size_t axis = 0; axis < program.mesh->axes().size(); ++axis)
    if (program.mesh->axes()[axis].num_ranks > 1) AxisVerifier(program, static_cast<int>(axis), diagnostics).run();
  return diagnostics.take();
}

}  // namespace tessera::host
