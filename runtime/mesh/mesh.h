// The ranks of a job arranged in named axes, and all arithmetic between ranks and coordinates.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/program.h"

namespace tessera::host {

/// One axis; `splits` is TSR_SPLITS_*, declared by its strategy.
struct Axis {
  std::string name;
  int num_ranks = 1;
  uint32_t splits = TSR_SPLITS_BATCH;
};

/// A rank's position: one coordinate per axis, in the mesh's order.
using Coordinates = std::vector<int>;

/// A set of ranks by axis, as actions name it: the ranks that differ in `axis` (TSR_WORLD_AXIS: all), or those at the
/// listed coordinates of it (ascending; empty = all).
struct Group {
  int axis = TSR_WORLD_AXIS;
  std::vector<int> coordinates;
  bool operator==(const Group&) const = default;
};

/// Axes outermost first. An immutable value, valid by construction.
class Mesh {
 public:
  /// One rank, no axes.
  Mesh() = default;
  /// Throws INVALID_ARGUMENT for an empty or repeated name or a length below 1.
  explicit Mesh(std::vector<Axis> axes);

  std::span<const Axis> axes() const { return axes_; }
  int num_ranks() const { return num_ranks_; }
  /// Index of the axis; throws NOT_FOUND with the names there are.
  int axis(std::string_view name) const;

  Coordinates coordinates(int rank) const;
  int rank(const Coordinates& coordinates) const;

  /// World ranks of the group that `coordinates` belongs to, in order of the group's coordinates. A rank outside a
  /// listed subset may ask too.
  std::vector<int> members(const Group& group, const Coordinates& coordinates) const;
  /// This rank's position in members(), or -1 when it is outside the subset.
  int position(const Group& group, const Coordinates& coordinates) const;
  /// members().size(), which is the same everywhere.
  int num_members(const Group& group) const;

  /// Data ranks d = product of the batch axes, and this rank's place among them. Ranks that differ only in other axes
  /// read the same tokens.
  int num_data_ranks() const;
  int data_rank(const Coordinates& coordinates) const;

 private:
  std::vector<Axis> axes_;
  int num_ranks_ = 1;
};

}  // namespace tessera::host
