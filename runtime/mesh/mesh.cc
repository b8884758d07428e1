// A rank is its coordinates read as a mixed-radix number, the last axis fastest: with pp=2,dp=3 rank 4 is pp=1, dp=1.
// So the innermost axis connects neighboring ranks, which launchers put on one machine; it should be the axis that
// communicates most.
//
//     pp\dp   0  1  2
//     0        0  1  2
//     1        3  4  5

#include "mesh/mesh.h"

#include <algorithm>

#include "tessera/error.hpp"

namespace tessera::host {

Mesh::Mesh(std::vector<Axis> axes) : axes_(std::move(axes)) {
  for (size_t i = 0; i < axes_.size(); ++i) {
    const Axis& axis = axes_[i];
    if (axis.name.empty() || axis.name == "world")
      throw Error(TSR_E_INVALID_ARGUMENT, "an axis of the mesh has the name '" + axis.name + "'; choose another");
    if (axis.num_ranks < 1)
      throw Error(TSR_E_INVALID_ARGUMENT,
                  "axis " + axis.name + " has " + std::to_string(axis.num_ranks) + " ranks; at least 1 is needed");
    for (size_t j = 0; j < i; ++j)
      if (axes_[j].name == axis.name)
        throw Error(TSR_E_INVALID_ARGUMENT, "the mesh has the axis " + axis.name + " twice; name each axis once");
    num_ranks_ *= axis.num_ranks;
  }
}

int Mesh::axis(std::string_view name) const {
  std::string names;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) return static_cast<int>(i);
    names += (i ? ", " : "") + axes_[i].name;
  }
  throw Error(TSR_E_NOT_FOUND,
              "the mesh has no axis " + std::string(name) + "; it has: " + (names.empty() ? "none" : names));
}

Coordinates Mesh::coordinates(int rank) const {
  Coordinates result(axes_.size());
  for (size_t i = axes_.size(); i-- > 0;) {
    result[i] = rank % axes_[i].num_ranks;
    rank /= axes_[i].num_ranks;
  }
  return result;
}

int Mesh::rank(const Coordinates& coordinates) const {
  int rank = 0;
  for (size_t i = 0; i < axes_.size(); ++i)
    rank = rank * axes_[i].num_ranks + coordinates[i];
  return rank;
}

Coordinates Mesh::on_axes_that_split(uint32_t splits, const Coordinates& coordinates) const {
  Coordinates part = coordinates;
  for (size_t i = 0; i < axes_.size(); ++i)
    if (axes_[i].splits != splits) part[i] = 0;
  return part;
}

std::vector<int> Mesh::members(const Group& group, const Coordinates& coordinates) const {
  std::vector<int> ranks;
  if (group.axis == TSR_WORLD_AXIS) {
    for (int r = 0; r < num_ranks_; ++r)
      ranks.push_back(r);
    return ranks;
  }
  Coordinates at = coordinates;
  for (int c = 0; c < axes_[group.axis].num_ranks; ++c) {
    if (!group.coordinates.empty() && !std::ranges::binary_search(group.coordinates, c)) continue;
    at[group.axis] = c;
    ranks.push_back(rank(at));
  }
  return ranks;
}

int Mesh::member(const Group& group, int position, const Coordinates& coordinates) const {
  if (group.axis == TSR_WORLD_AXIS) return position;
  Coordinates at = coordinates;
  at[group.axis] = group.coordinates.empty() ? position : group.coordinates[position];
  return rank(at);
}

int Mesh::position(const Group& group, const Coordinates& coordinates) const {
  if (group.axis == TSR_WORLD_AXIS) return rank(coordinates);
  const int own = coordinates[group.axis];
  if (group.coordinates.empty()) return own;
  const auto found = std::ranges::lower_bound(group.coordinates, own);
  return found == group.coordinates.end() || *found != own ? -1 : static_cast<int>(found - group.coordinates.begin());
}

int Mesh::num_members(const Group& group) const {
  if (group.axis == TSR_WORLD_AXIS) return num_ranks_;
  return group.coordinates.empty() ? axes_[group.axis].num_ranks : static_cast<int>(group.coordinates.size());
}

int Mesh::num_data_ranks() const {
  int product = 1;
  for (const Axis& axis : axes_)
    if (axis.splits == TSR_SPLITS_BATCH) product *= axis.num_ranks;
  return product;
}

int Mesh::data_rank(const Coordinates& coordinates) const {
  int index = 0;
  for (size_t i = 0; i < axes_.size(); ++i)
    if (axes_[i].splits == TSR_SPLITS_BATCH) index = index * axes_[i].num_ranks + coordinates[i];
  return index;
}

}  // namespace tessera::host
