// The elements that a rank holds of a tensor are read in their order in the whole tensor, range by range, so a reader
// passes over the files once, and are written where the rank keeps them. Memory: one piece, and the reader's blocks.

#include "checkpoint/load.h"

#include <algorithm>
#include <vector>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr uint64_t kPieceElements = 1 << 20;
constexpr size_t kExpectedTensors = 4;

void load_tensor(const Checkpoint& checkpoint, const HeldTensor& tensor, const WriteState& write,
                 std::vector<float>& piece) {
  const uint64_t num_elements = tensor.num_elements();
  size_t range = 0;
  uint64_t within = 0;  // elements of that range that were read
  for (uint64_t begin = 0; begin < num_elements; begin += kPieceElements) {
    piece.resize(std::min(kPieceElements, num_elements - begin));
    for (uint64_t filled = 0; filled < piece.size();) {
      const ElementRange& from = tensor.ranges[range];
      const uint64_t count = std::min(from.num_elements() - within, piece.size() - filled);
      checkpoint.read(tensor.name, from.begin + within, std::span(piece).subspan(filled, count));
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
    if (what == LoadWhat::parameters && tensors[i].is_moment) continue;
    if (tensors[i].is_moment && !checkpoint.has(tensors[i].name))
      throw Error(TSR_E_FAILED_PRECONDITION,
                  concat(checkpoint.folder(), " has no ", tensors[i].name,
                         ": --optimizer or --freeze were others when it was saved; give them again, or start from its "
                         "parameters alone with --init-from"));
    for (size_t next = i; next < std::min(i + kExpectedTensors, tensors.size()); ++next)
      if (what == LoadWhat::everything || !tensors[next].is_moment) checkpoint.expect(tensors[next].name);
    load_tensor(checkpoint, tensors[i], write, piece);
  }
}

}  // namespace tessera::host
