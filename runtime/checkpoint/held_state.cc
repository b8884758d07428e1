// Homes say which elements of a parameter are where; all their roles are cut alike. Of ranks that hold the same
// elements one saves them, and the layout tells which without a message: on an axis over which a parameter's moments
// are replicated, the first coordinate that has them. Moments, because a strategy that splits only these (ZeRO 1 and 2,
// fsdp.sharding=optimizer_only) leaves a whole value on every rank, but homes over the rank's own part of it alone.
// The rank that puts the index together checks that all parts together are each tensor, once.

#include "checkpoint/held_state.h"

#include <algorithm>
#include <map>
#include <tuple>
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

/// Whether this rank's coordinate is the first that has the parameter on every axis over which it is replicated.
bool owns(const Program& program, int parameter) {
  for (size_t axis = 0; axis < program.coordinates.size(); ++axis) {
    const LayoutEntry* entry = entry_on(program, parameter, static_cast<int>(axis), TSR_HOME_M);
    if (entry && entry->kind != TSR_LAYOUT_REPLICATED) continue;
    const int first = entry && !entry->coordinates.empty() ? entry->coordinates.front() : 0;
    if (program.coordinates[axis] != first) return false;
  }
  return true;
}

const HomeRole& values_of(const Home& home) {
  return home.roles[home.roles[TSR_HOME_MASTER].buffer ? TSR_HOME_MASTER : TSR_HOME_VALUE];
}

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

HeldTensor make_tensor(const Program& program, std::string name, int parameter, std::vector<Piece> pieces) {
  HeldTensor tensor;
  tensor.name = std::move(name);
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

}  // namespace

uint64_t HeldTensor::num_elements() const {
  uint64_t sum = 0;
  for (const ElementRange& range : ranges)
    sum += range.num_elements();
  return sum;
}

std::vector<HeldTensor> held_tensors(const Program& program) {
  std::map<std::pair<int, int>, std::vector<Piece>> pieces;  // by parameter, then value, m, v
  for (const Home& home : program.homes) {
    const HomeRole* roles[] = {&values_of(home), &home.roles[TSR_HOME_M], &home.roles[TSR_HOME_V]};
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
  return tensors;
}

std::string obstacle_to_saving(const Program& program) {
  for (const LayoutEntry& entry : program.layout)
    if (entry.kind == TSR_LAYOUT_DIVERGENT)
      return concat("the ranks of axis ", program.mesh->axes()[static_cast<size_t>(entry.axis)].name,
                    " have different values of ", program.model->parameters[static_cast<size_t>(entry.parameter)].name,
                    ", of which a checkpoint would keep one");
  for (const Buffer& buffer : program.buffers)
    if (buffer.persistent && buffer.kind == TSR_BUFFER_PLUGIN)
      return concat("a strategy keeps state of its own, '", buffer.name, "', which checkpoints do not hold yet");
  return "";
}

std::string safetensors_dtype(tsr_dtype dtype) {
  if (dtype == TSR_F32) return "F32";
  if (dtype == TSR_BF16) return "BF16";
  if (dtype == TSR_F16) return "F16";
  throw Error(TSR_E_INTERNAL, concat("state in ", dtype_name(dtype), " cannot be saved"));
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
