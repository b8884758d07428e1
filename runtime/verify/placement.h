// What the elements of buffers mean to the ranks of one axis.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/program.h"
#include "program/range_map.h"

namespace tessera::host {

enum class PlacementKind : uint8_t {
  unknown,     ///< not written yet, or taken on trust: fits everything
  zero,        ///< fits everything
  replicated,  ///< the same on all ranks of the axis
  partial,     ///< each rank has an addend; their sum is meant
  split,       ///< each rank has another part
  different,   ///< each rank has its own, of equal standing: results of its own tokens, divergent parameters
};

/// A state, and what the elements have been multiplied with on the way.
struct Placement {
  PlacementKind state = PlacementKind::unknown;
  double factor = 1;

  bool is_neutral() const { return state <= PlacementKind::zero; }
  bool is_scaled() const { return factor < 1 - 1e-9 || factor > 1 + 1e-9; }
};

/// "the same on all ranks of dp", "a sum over dp that nothing has taken yet", ...
std::string placement_text(const Placement& placement, const std::string& axis);

/// The placement of a + b, or nothing when the sum has none: a partial sum and anything else, unequal factors.
std::optional<Placement> placement_of_sum(const Placement& a, const Placement& b);

/// A range of a binding: offset from the binding's start, elements, placement.
struct PlacementPart {
  uint64_t offset = 0;
  uint64_t num_elements = 0;
  Placement placement;
};
using PlacementParts = std::vector<PlacementPart>;

/// The one placement of all parts that are not neutral; unknown when there are several or none.
Placement common_placement(const PlacementParts& parts);
/// Those of [begin, end), moved to begin at 0.
PlacementParts slice(const PlacementParts& parts, uint64_t begin, uint64_t end);

/// Two lists over the same elements, cut at the ends of both.
struct PlacementPair {
  uint64_t offset = 0;
  uint64_t num_elements = 0;
  Placement first, second;
};
std::vector<PlacementPair> zip(const PlacementParts& first, const PlacementParts& second);

/// The placements of all elements of a program's buffers.
class PlacementMap {
 public:
  explicit PlacementMap(const Program& program);
  PlacementParts read(const Binding& range);
  void write(const Binding& range, const Placement& placement);
  void write(const Binding& range, const PlacementParts& parts);

 private:
  RangeMap<Placement>& buffer(uint64_t id) { return buffers_[&program_.buffer(id) - program_.buffers.data()]; }

  const Program& program_;
  std::vector<RangeMap<Placement>> buffers_;
};

PlacementKind layout_state(const Program& program, int parameter, int axis, uint32_t role);

}  // namespace tessera::host
