// The state of a rank between two steps, as tensors: what each of its homes holds of which parameter, and where.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "program/program.h"
#include "program/state_place.h"
#include "tessera/ranges.hpp"

namespace tessera::host {

/// What a rank holds of a parameter, or of one of its moments: the elements of `ranges`, one after another, are those
/// of `places`. Or what a strategy keeps for itself in a buffer, all of it.
struct HeldTensor {
  std::string name;         ///< "wte.weight", "optim.wte.weight.m", "replica.1.wte.weight"
  std::string shared_name;  ///< the same of the first replica
  int num_replicas = 1;     ///< of the parameters, which each train on their own
  int parameter = -1;       ///< in the model; -1: a strategy's own
  tsr_dtype dtype = TSR_F32;
  StateDescription state = {};  ///< of a strategy's own
  bool is_moment = false;
  bool is_owner = false;             ///< of the ranks that hold these elements this one saves them
  std::vector<ElementRange> ranges;  ///< of the whole parameter, ascending, disjoint
  std::vector<StatePlace> places;

  uint64_t num_elements() const;
};

/// Of every parameter of which the rank holds elements: value, first and second moment, as far as there are any. Among
/// ranks that hold the same the owner is the one with the lowest coordinates. Then the persistent buffers of
/// strategies.
std::vector<HeldTensor> held_tensors(const Program& program);

/// The bytes of those of them that this rank saves: 12 for each element that it owns under adamw.
uint64_t owned_bytes(const Program& program);

/// "F32", the name of a type in safetensors.
std::string safetensors_dtype(tsr_dtype dtype);

/// Calls `each` for the places of elements [begin, end) of the tensor: where they are, and how many come before them.
void for_places(const HeldTensor& tensor, uint64_t begin, uint64_t end,
                const std::function<void(const StatePlace& place, uint64_t before)>& each);

}  // namespace tessera::host
