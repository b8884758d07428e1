// How the elements of buffers are placed over the ranks of one axis: Replicate, Partial and Shard as in DTensor,
// varying, and the codes that strategies make of addends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/buffer_values.h"
#include "program/program.h"

namespace tessera::host {

enum class PlacementKind : uint8_t {
  unknown,   ///< not written yet, or not analyzed: fits everything
  received,  ///< from ranks whose programs are not looked at here: fits everything but sums, since addends are not sent
  local,  ///< what a strategy's own buffer holds from an earlier step, of each rank its own: fits everything but calls
  zero,   ///< fits everything
  replicated,  ///< the same on all ranks of the axis
  partial,     ///< each rank has a partial sum; the value is their total
  shard,       ///< each rank has another part
  varying,     ///< each rank has its own value: results of its own tokens, divergent parameters
  extremum,    ///< each rank has the minimum or maximum of its part; the value is that of all
  encoded,     ///< each rank has what a call made of its partial sum
  gathered,    ///< the same on all ranks: the codes of all of them
  exchanged,   ///< each rank has all ranks' codes of another part of the sum
  bound,       ///< the same on all ranks: a minimum or maximum of their codes
};

/// Whose code it is, which one, and over which group all ranks' codes came together. There `position` is whose of the
/// group it is, -1 where that is unknown, and `num_positions` how many have one.
struct Code {
  int strategy = -1;
  uint32_t number = 0;
  int group = -1;
  int position = -1;
  int num_positions = 0;

  /// of any rank it is.
  bool is_same(const Code& other) const {
    return strategy == other.strategy && number == other.number && group == other.group;
  }

  bool operator==(const Code&) const = default;
};

/// A kind, and the factor by which the elements have been multiplied so far.
struct Placement {
  PlacementKind kind = PlacementKind::unknown;
  double factor = 1;
  Code code = {};  ///< of codes

  bool is_neutral() const { return kind <= PlacementKind::zero; }
  bool is_code() const { return kind >= PlacementKind::encoded; }
  bool is_scaled() const { return !(factor >= 1 - 1e-9 && factor <= 1 + 1e-9); }  // not a number is scaled too
};

/// "the same on all ranks of dp", "an unreduced partial sum over dp", ...
std::string placement_text(const Placement& placement, const std::string& axis);

/// The placement of a + b; nothing when the sum has none: a partial sum plus anything else, unequal factors.
std::optional<Placement> placement_of_sum(const Placement& a, const Placement& b);

/// A range of a binding: offset from the binding's start, elements, placement.
struct PlacementPart {
  uint64_t offset = 0;
  uint64_t num_elements = 0;
  Placement placement;
};
using PlacementParts = std::vector<PlacementPart>;

/// The placement that all non-neutral parts have, codes included; `received` when they differ, unknown when there are
/// none.
Placement common_placement(const PlacementParts& parts);
/// The parts of [begin, end), with offsets from `begin`.
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
  explicit PlacementMap(const Program& program) : values_(program) {}
  PlacementParts read(const Binding& range);
  void write(const Binding& range, const Placement& placement);
  void write(const Binding& range, const PlacementParts& parts);

 private:
  BufferValues<Placement> values_;
};

/// The placement of a parameter's role on an axis, according to the layout.
PlacementKind layout_placement(const Program& program, int parameter, int axis, uint32_t role);

}  // namespace tessera::host
