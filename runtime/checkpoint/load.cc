// The elements that a rank holds of a tensor are read in their order in the whole tensor, range by range, so a reader
// passes over the files once. Where the rank keeps them in memory of the host they are copied once, from the block
// whose checksum was compared; elsewhere they go through a piece. Memory: one piece, and the reader's blocks.

#include "checkpoint/load.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/concat.h"
#include "checkpoint/inspect.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr uint64_t kPieceElements = 1 << 18;  // 1 MiB of floats
constexpr uint64_t kAheadElements = 3 << 20;  // so many are on their way

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

bool is_loaded(const HeldTensor& tensor, LoadWhat what) {
  return tensor.parameter >= 0 && (what == LoadWhat::everything || !tensor.is_moment);
}

/// Reads what a rank holds, while what comes next is on its way from the disk.
class Loader {
 public:
  Loader(const Checkpoint& checkpoint, std::span<const HeldTensor> tensors, LoadWhat what, const StateSink& sink)
      : checkpoint_(checkpoint), sink_(sink) {
    for (const HeldTensor& tensor : tensors) {
      if (!is_loaded(tensor, what)) continue;
      const std::string& name = name_to_load(checkpoint, tensor, what);
      if (tensor.is_moment && !checkpoint.has(name)) fail_without(name);
      if (tensor.num_elements()) wanted_.push_back({&tensor, &name});
    }
  }

  void run(Progress* progress) {
    while (at_.tensor < wanted_.size()) {
      if (progress) progress->at(at_.tensor, wanted_.size());
      const HeldTensor& tensor = *wanted_[at_.tensor].tensor;
      for (uint64_t begin = 0; begin < tensor.num_elements(); begin += kPieceElements)
        load_piece(tensor, begin, std::min(kPieceElements, tensor.num_elements() - begin));
    }
  }

 private:
  struct Wanted {
    const HeldTensor* tensor;
    const std::string* name;  // in the checkpoint
  };
  /// Before an element of a range of a tensor.
  struct Position {
    size_t tensor = 0, range = 0;
    uint64_t within = 0;
  };

  [[noreturn]] void fail_without(const std::string& name) const {
    throw Error(TSR_E_FAILED_PRECONDITION,
                concat(checkpoint_.folder(), " has no ", name,
                       ": it was saved with another --optimizer or --freeze; give the same again, or start from its "
                       "parameters alone with --init-from"));
  }

  /// The elements from `position` on, up to `most` of them and the end of their range; `position` is after them then.
  ElementRange step(Position& position, uint64_t most) const {
    const std::vector<ElementRange>& ranges = wanted_[position.tensor].tensor->ranges;
    const ElementRange& range = ranges[position.range];
    const uint64_t begin = range.begin + position.within, end = std::min(range.end, begin + most);
    position.within += end - begin;
    if (end < range.end) return {begin, end};
    position.within = 0;
    if (++position.range == ranges.size()) position = {position.tensor + 1, 0, 0};
    return {begin, end};
  }

  void load_piece(const HeldTensor& tensor, uint64_t begin, uint64_t count) {
    for_places(tensor, begin, begin + count, [&](const StatePlace& place, uint64_t /*before*/) {
      if (const std::span<float> memory = sink_.memory(place); !memory.empty()) return read_next(memory);
      piece_.resize(place.num_elements);
      read_next(piece_);
      sink_.write(place, piece_);
    });
  }

  void read_next(std::span<float> out) {
    while (!out.empty()) {
      const std::string& name = *wanted_[at_.tensor].name;
      const ElementRange next = step(at_, out.size());
      num_read_ += next.num_elements();
      expect_until(num_read_ + kAheadElements);
      checkpoint_.read(name, next.begin, out.first(next.num_elements()));
      out = out.subspan(next.num_elements());
    }
  }

  void expect_until(uint64_t num_elements) {
    while (num_expected_ < num_elements && ahead_.tensor < wanted_.size()) {
      const std::string& name = *wanted_[ahead_.tensor].name;
      const ElementRange next = step(ahead_, num_elements - num_expected_);
      checkpoint_.expect(name, next.begin, next.num_elements());
      num_expected_ += next.num_elements();
    }
  }

  const Checkpoint& checkpoint_;
  const StateSink& sink_;
  std::vector<Wanted> wanted_;
  Position at_, ahead_;
  uint64_t num_read_ = 0, num_expected_ = 0;  // elements
  std::vector<float> piece_;
};

}  // namespace

std::vector<StatePlace> loaded_places(std::span<const HeldTensor> tensors, LoadWhat what) {
  std::vector<StatePlace> places;
  for (const HeldTensor& tensor : tensors)
    if (is_loaded(tensor, what)) places.insert(places.end(), tensor.places.begin(), tensor.places.end());
  return places;
}

void load_tensors(const Checkpoint& checkpoint, std::span<const HeldTensor> tensors, LoadWhat what,
                  const StateSink& sink, Progress* progress) {
  Loader(checkpoint, tensors, what, sink).run(progress);
}

int num_replicas(const Checkpoint& checkpoint, const std::string& tensor) {
  int count = 1;
  while (checkpoint.has(replica_name(tensor, count)))
    ++count;
  return count;
}

namespace {

/// Why what was saved is not this state, as a sentence. Empty: it is.
std::string difference(const SavedTensor& saved, const HeldTensor& tensor) {
  if (saved.dtype != safetensors_dtype(tensor.dtype) || saved.num_elements() != tensor.num_elements())
    return concat(tensor.name, " has ", saved.num_elements(), " elements of ", saved.dtype, " there and ",
                  tensor.num_elements(), " of ", safetensors_dtype(tensor.dtype), " here");
  if (saved.version != tensor.state.version)
    return concat(tensor.name, " has version ", saved.version, " there and ", tensor.state.version, " here");
  return "";
}

}  // namespace

std::vector<HeldTensor> kept_own_state(const Checkpoint& checkpoint, std::span<const HeldTensor> tensors) {
  std::vector<HeldTensor> kept;
  for (const HeldTensor& tensor : tensors) {
    if (tensor.parameter >= 0 || tensor.state.on_change != TSR_ON_CHANGE_KEEP) continue;
    const auto saved = checkpoint.index().tensors.find(tensor.name);
    if (saved != checkpoint.index().tensors.end() && difference(saved->second, tensor).empty()) kept.push_back(tensor);
  }
  return kept;
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
  std::set<std::string_view> left;
  for (const auto& [name, saved] : index.tensors)
    if (name.starts_with(prefix)) left.insert(name);
  for (const HeldTensor& tensor : tensors) {
    if (tensor.parameter >= 0) continue;
    const auto saved = index.tensors.find(tensor.name);
    if (saved == index.tensors.end()) return concat("the checkpoint has no ", tensor.name);
    if (std::string differs = difference(saved->second, tensor); !differs.empty()) return differs;
    left.erase(tensor.name);
  }
  if (left.empty()) return "";
  return concat("the checkpoint has ", *left.begin(),
                left.size() > 1 ? concat(" and ", counted(left.size() - 1, "more buffer"), " of rank ", rank) : "",
                " that this run does not have");
}

std::string required_own_state(const Checkpoint& checkpoint, std::span<const HeldTensor> tensors) {
  for (const HeldTensor& tensor : tensors)
    if (tensor.state.on_change == TSR_ON_CHANGE_REFUSE) return tensor.name;
  for (const auto& [name, saved] : checkpoint.index().tensors)
    if (saved.is_required) return name;
  return "";
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
