// Homes say which elements of a parameter are where; all their roles are cut alike. Of ranks that hold the same
// elements one saves them, and the layout tells which without a message: on an axis over which a parameter's moments
// are replicated, the first coordinate that has them. Where parameters diverge over an axis its coordinates hold
// different tensors, by the names of their replicas, and each has its owner. Moments, because a strategy that splits
// only these (ZeRO 1 and 2, fsdp.sharding=optimizer_only) leaves a whole value on every rank, but homes over the rank's
// own part of it alone. The rank that puts the index together checks that all parts together are each tensor, once.

#include "checkpoint/held_state.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/concat.h"
#include "checkpoint/index.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

struct Piece {
  ElementRange elements;  // of the whole parameter
  StatePlace place;
};

/// How the parameter's homes are split over the axis; null: they are replicated. Slices of its state are none where it
/// is frozen: then its homes are as its value, or whole on the rank that owns it.
const LayoutEntry* entry_of_homes(const Program& program, int parameter, int axis) {
  const LayoutEntry* entry = entry_on(program, parameter, axis, TSR_HOME_M);
  const bool trains = program.model->parameters[static_cast<size_t>(parameter)].trainable;
  const bool is_sliced = entry && entry->kind == TSR_LAYOUT_SPLIT && entry->coordinates.empty();
  return !trains && is_sliced ? entry_on(program, parameter, axis, TSR_HOME_VALUE) : entry;
}

/// Whether this rank's coordinate is the first that has the parameter on every axis over which it is replicated.
bool owns(const Program& program, int parameter) {
  for (size_t axis = 0; axis < program.coordinates.size(); ++axis) {
    const LayoutEntry* entry = entry_of_homes(program, parameter, static_cast<int>(axis));
    if (entry && entry->kind != TSR_LAYOUT_REPLICATED) continue;
    const int first = entry && !entry->coordinates.empty() ? entry->coordinates.front() : 0;
    if (program.coordinates[axis] != first) return false;
  }
  return true;
}

/// Places that touch become one, so that a tensor is written and read in few calls.
void append(std::vector<StatePlace>& places, const StatePlace& place) {
  if (!places.empty()) {
    StatePlace& last = places.back();
    if (last.buffer == place.buffer && last.offset + last.num_elements == place.offset) {
      last.num_elements += place.num_elements;
      return;
    }
  }
  places.push_back(place);
}

struct Replica {
  int index = 0, count = 1;
};

/// Numbered by the coordinates on the axes over which the parameter diverges, the last one fastest.
Replica replica_of(const Program& program, int parameter) {
  Replica replica;
  for (size_t axis = 0; axis < program.coordinates.size(); ++axis) {
    const LayoutEntry* entry = entry_on(program, parameter, static_cast<int>(axis), TSR_HOME_M);
    if (!entry || entry->kind != TSR_LAYOUT_DIVERGENT) continue;
    const int num_ranks = program.mesh->axes()[axis].num_ranks;
    replica = {replica.index * num_ranks + program.coordinates[axis], replica.count * num_ranks};
  }
  return replica;
}

HeldTensor make_tensor(const Program& program, const std::string& name, int parameter, std::vector<Piece> pieces) {
  const Replica replica = replica_of(program, parameter);
  HeldTensor tensor;
  tensor.name = replica_name(name, replica.index);
  tensor.shared_name = name;
  tensor.num_replicas = replica.count;
  tensor.parameter = parameter;
  tensor.is_owner = owns(program, parameter);
  tensor.dtype = program.buffer(pieces.front().place.buffer).dtype;
  std::ranges::sort(pieces, {}, [](const Piece& piece) { return piece.elements.begin; });
  for (const Piece& piece : pieces) {
    if (!tensor.ranges.empty() && tensor.ranges.back().end == piece.elements.begin)
      tensor.ranges.back().end = piece.elements.end;
    else
      tensor.ranges.push_back(piece.elements);
    append(tensor.places, piece.place);
  }
  return tensor;
}

HeldTensor own_state(const Program& program, const Buffer& buffer) {
  const StrategyOnAxis& strategy = program.strategies[static_cast<size_t>(buffer.strategy)];
  const std::string name =
      concat(program.mesh->axes()[static_cast<size_t>(strategy.axis)].name, ".", strategy.name, ".", buffer.name);
  HeldTensor tensor;
  tensor.name = tensor.shared_name = own_state_name(program.mesh->rank(program.coordinates), name);
  tensor.dtype = buffer.dtype;
  tensor.state = buffer.state;
  tensor.is_owner = true;
  tensor.ranges = {{0, buffer.num_elements}};
  tensor.places = {{buffer.id, 0, buffer.num_elements}};
  return tensor;
}

}  // namespace

uint64_t HeldTensor::num_elements() const {
  uint64_t sum = 0;
  for (const ElementRange& range : ranges)
    sum += range.num_elements();
  return sum;
}

std::vector<HeldTensor> held_tensors(const Program& program) {
  // Gathered first: a home may hold pieces of several parameters, and a parameter may be in several homes.
  std::map<std::pair<int, int>, std::vector<Piece>> pieces;  // by parameter, then value, m, v
  for (const Home& home : program.homes) {
    // From a VALUE of 16 bits no run can go on.
    const HomeRole* roles[] = {&role_of_values(home), &home.roles[TSR_HOME_M], &home.roles[TSR_HOME_V]};
    for (int role = 0; role < 3; ++role)
      for (const tsr_piece& piece : home.pieces)
        if (roles[role]->buffer && piece.num_elements)
          pieces[{piece.parameter, role}].push_back(
              {{piece.parameter_offset, piece.parameter_offset + piece.num_elements},
               {roles[role]->buffer, roles[role]->offset + piece.home_offset, piece.num_elements}});
  }
  std::vector<HeldTensor> tensors;
  for (auto& [key, own] : pieces) {
    const std::string& name = program.model->parameters[static_cast<size_t>(key.first)].name;
    const std::string own_name = key.second == 0 ? name : moment_name(name, "-mv"[key.second]);
    tensors.push_back(make_tensor(program, own_name, key.first, std::move(own)));
    tensors.back().is_moment = key.second > 0;
  }
  for (const Buffer& buffer : program.buffers)
    if (buffer.persistent && buffer.kind == TSR_BUFFER_PLUGIN && buffer.num_elements)
      tensors.push_back(own_state(program, buffer));
  return tensors;
}

uint64_t owned_bytes(const Program& program) {
  uint64_t num_bytes = 0;
  for (const HeldTensor& tensor : held_tensors(program))
    if (tensor.is_owner) num_bytes += TSR_NUM_BYTES(tensor.dtype, tensor.num_elements());
  return num_bytes;
}

std::string safetensors_dtype(tsr_dtype dtype) {
  constexpr std::pair<tsr_dtype, const char*> kNames[] = {
      {TSR_F32, "F32"}, {TSR_BF16, "BF16"}, {TSR_F16, "F16"}, {TSR_F64, "F64"}, {TSR_I8, "I8"},
      {TSR_I32, "I32"}, {TSR_I64, "I64"},   {TSR_U8, "U8"},   {TSR_U16, "U16"}, {TSR_U32, "U32"}};
  const auto* found = std::ranges::find(kNames, dtype, &std::pair<tsr_dtype, const char*>::first);
  if (found == std::end(kNames))
    throw Error(TSR_E_INTERNAL, concat("state in ", dtype_name(dtype), " cannot be saved"));
  return found->second;
}

void for_places(const HeldTensor& tensor, uint64_t begin, uint64_t end,
                const std::function<void(const StatePlace&, uint64_t)>& each) {
  uint64_t before = 0;
  for (const StatePlace& place : tensor.places) {
    const uint64_t from = std::max(begin, before), to = std::min(end, before + place.num_elements);
    if (from < to) each({place.buffer, place.offset + (from - before), to - from}, from - begin);
    before += place.num_elements;
    if (before >= end) return;
  }
}

}  // namespace tessera::host
