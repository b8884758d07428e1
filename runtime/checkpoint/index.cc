// Sums over an index, and the names under which state is saved. A parameter has its own name, and what belongs to it is
// found by a prefix, so any reader of safetensors can tell them apart:
//
//     h.0.mlp.c_fc.weight                   the parameter; of the first replica, where ranks train their own
//     optim.h.0.mlp.c_fc.weight.m           its first moment
//     replica.1.h.0.mlp.c_fc.weight         the second replica's
//     state.3.dp.STRATEGY.BUFFER            what a strategy on axis dp keeps for itself on rank 3

#include "checkpoint/index.h"

#include "base/concat.h"

namespace tessera::host {
namespace {

constexpr std::string_view kReplica = "replica.", kOwnState = "state.";

}  // namespace

uint64_t TensorPart::num_elements() const {
  uint64_t sum = 0;
  for (const StridedRange& range : ranges)
    sum += range.total_elements();
  return sum;
}

uint64_t SavedTensor::num_elements() const {
  uint64_t product = 1;
  for (const uint64_t extent : shape)
    product *= extent;
  return product;
}

uint64_t CheckpointIndex::total_bytes() const {
  uint64_t sum = 0;
  for (const SavedFile& file : files)
    sum += file.num_bytes;
  return sum;
}

std::string moment_name(std::string_view parameter, char which) {
  return concat("optim.", parameter, ".", which);
}

std::string replica_name(std::string_view tensor, int replica) {
  return replica == 0 ? std::string(tensor) : concat(kReplica, replica, ".", tensor);
}

std::string own_state_name(int rank, std::string_view buffer) {
  return concat(kOwnState, rank, ".", buffer);
}

bool is_own_state(std::string_view tensor) {
  return tensor.starts_with(kOwnState);
}

bool is_of_replica(std::string_view tensor) {
  return tensor.starts_with(kReplica);
}

}  // namespace tessera::host
