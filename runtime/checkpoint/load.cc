// The elements that a rank holds of a tensor are read in their order in the whole tensor, range by range, so a reader
// passes over the files once, and are written where the rank keeps them. Memory: one piece, and the reader's blocks.

#include "checkpoint/load.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/concat.h"
#include "checkpoint/inspect.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr uint64_t kPieceElements = 1 << 20;
constexpr size_t kExpectedTensors = 4;

std::map<std::string, std::string> as_map(const NamedValues& values) {
  return {values.begin(), values.end()};
}

/// Each replica goes on from its own values where there are as many; else, and in a run that begins, all from the
/// first's.
const std::string& name_to_load(const Checkpoint& checkpoint, const HeldTensor& tensor, LoadWhat what) {
  const bool has_all = what == LoadWhat::everything && tensor.num_replicas > 1 &&
                       num_replicas(checkpoint, tensor.shared_name) == tensor.num_replicas;
  return has_all ? tensor.name : tensor.shared_name;
}

void load_tensor(const Checkpoint& checkpoint, const std::string& name, const HeldTensor& tensor,
                 const WriteState& write, std::vector<float>& piece) {
  const uint64_t num_elements = tensor.num_elements();
  size_t range = 0;
  uint64_t within = 0;  // elements of that range that were read
  for (uint64_t begin = 0; begin < num_elements; begin += kPieceElements) {
    piece.resize(std::min(kPieceElements, num_elements - begin));
    for (uint64_t filled = 0; filled < piece.size();) {
      const ElementRange& from = tensor.ranges[range];
      const uint64_t count = std::min(from.num_elements() - within, piece.size() - filled);
      checkpoint.read(name, from.begin + within, std::span(piece).subspan(filled, count));
      filled += count;
      within += count;
      if (within == from.num_elements()) within = 0, ++range;
    }
    for_places(tensor, begin, begin + piece.size(), [&](const StatePlace& place, uint64_t before) {
      write(place, std::span<const float>(piece).subspan(before, place.num_elements));
    });
  }
}

}  // namespace

void load_tensors(const Checkpoint& checkpoint, std::span<const HeldTensor> tensors, LoadWhat what,
                  const WriteState& write, Progress* progress) {
  std::vector<float> piece;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (progress) progress->at(i, tensors.size());
    if (tensors[i].parameter < 0 || (what == LoadWhat::parameters && tensors[i].is_moment)) continue;
    const std::string& name = name_to_load(checkpoint, tensors[i], what);
    if (tensors[i].is_moment && !checkpoint.has(name))
      throw Error(TSR_E_FAILED_PRECONDITION,
                  concat(checkpoint.folder(), " has no ", name,
                         ": --optimizer or --freeze were others when it was saved; give them again, or start from its "
                         "parameters alone with --init-from"));
    for (size_t next = i; next < std::min(i + kExpectedTensors, tensors.size()); ++next)
      if (tensors[next].parameter >= 0 && (what == LoadWhat::everything || !tensors[next].is_moment))
        checkpoint.expect(name_to_load(checkpoint, tensors[next], what));
    load_tensor(checkpoint, name, tensors[i], write, piece);
  }
}

int num_replicas(const Checkpoint& checkpoint, const std::string& tensor) {
  int count = 1;
  while (checkpoint.has(replica_name(tensor, count)))
    ++count;
  return count;
}

std::string obstacle_to_own_state(const Checkpoint& checkpoint, std::span<const HeldTensor> tensors, int rank,
                                  const RunDescription& run) {
  const CheckpointIndex& index = checkpoint.index();
  const bool was_kept = std::ranges::any_of(index.tensors, [](const auto& saved) { return is_own_state(saved.first); });
  const bool is_kept = std::ranges::any_of(tensors, [](const HeldTensor& tensor) { return tensor.parameter < 0; });
  if (!was_kept && !is_kept) return "";
  if (index.run.mesh != run.mesh || as_map(index.run.strategies) != as_map(run.strategies))
    return concat("it was saved under ", layout_text(index.run), ", and this run is under ", layout_text(run));
  const std::string prefix = own_state_name(rank, "");
  auto num_left =
      std::ranges::count_if(index.tensors, [&](const auto& saved) { return saved.first.starts_with(prefix); });
  for (const HeldTensor& tensor : tensors) {
    if (tensor.parameter >= 0) continue;
    const auto saved = index.tensors.find(tensor.name);
    if (saved == index.tensors.end()) return concat("the checkpoint has no ", tensor.name);
    if (saved->second.dtype != safetensors_dtype(tensor.dtype) || saved->second.num_elements() != tensor.num_elements())
      return concat(tensor.name, " has ", saved->second.num_elements(), " elements of ", saved->second.dtype,
                    " there and ", tensor.num_elements(), " of ", safetensors_dtype(tensor.dtype), " here");
    --num_left;
  }
  return num_left ? concat("the checkpoint has ", num_left, " more buffers of rank ", rank) : "";
}

void load_own_state(const Checkpoint& checkpoint, std::span<const HeldTensor> tensors, const WriteBytes& write) {
  std::vector<std::byte> piece;
  for (const HeldTensor& tensor : tensors) {
    if (tensor.parameter >= 0) continue;
    const uint64_t element = TSR_NUM_BYTES(tensor.dtype, 1), num_elements = tensor.num_elements();
    for (uint64_t begin = 0; begin < num_elements; begin += kPieceElements) {
      const uint64_t count = std::min(kPieceElements, num_elements - begin);
      piece.resize(count * element);
      checkpoint.read_bytes(tensor.name, begin, piece);
      write({tensor.places.front().buffer, begin, count}, piece);
    }
  }
}

}  // namespace tessera::host
