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

/// A set of ranks, as actions name it: those that differ only in `axis` (TSR_WORLD_AXIS: all ranks), or of these the
/// ones at the listed coordinates (ascending; empty: all).
struct Group {
  int axis = TSR_WORLD_AXIS;
  std::vector<int> coordinates;
  bool operator==(const Group&) const = default;
};

/// Immutable; valid by construction. Axes are listed outermost first.
class Mesh {
 public:
  /// One rank, no axes.
  Mesh() = default;
  /// Throws INVALID_ARGUMENT for an empty or repeated name or a length below 1.
  explicit Mesh(std::vector<Axis> axes);

  std::span<const Axis> axes() const { return axes_; }
  int num_ranks() const { return num_ranks_; }
  /// Index of the axis; throws NOT_FOUND, listing the axes.
  int axis(std::string_view name) const;

  Coordinates coordinates(int rank) const;
  int rank(const Coordinates& coordinates) const;

  /// Those of a rank on the axes that split `splits` (TSR_SPLITS_*), and 0 on the others: of the first rank with the
  /// same part of it.
  Coordinates on_axes_that_split(uint32_t splits, const Coordinates& coordinates) const;

  /// World ranks of the group that `coordinates` belongs to, in order of the group's coordinates. Also defined for a
  /// rank outside a listed subset.
  std::vector<int> members(const Group& group, const Coordinates& coordinates) const;
  /// members()[position], without listing the others, which may be many.
  int member(const Group& group, int position, const Coordinates& coordinates) const;
  /// This rank's position in members(), or -1 when it is outside the subset.
  int position(const Group& group, const Coordinates& coordinates) const;
  /// members().size(), which is the same for all coordinates.
  int num_members(const Group& group) const;

  /// The number of data ranks, which is the product of the batch axes, and a rank's index among them. Ranks that differ
  /// only in other axes read the same tokens.
  int num_data_ranks() const;
  int data_rank(const Coordinates& coordinates) const;

 private:
  std::vector<Axis> axes_;
  int num_ranks_ = 1;
};

}  // namespace tessera::host
