// Of more than 16 ranks one of each class is walked, here rank 0 of fsdp:
//
//     52    comm.dp.gradient    reduce_scatter group=dp reduce=sum  r %90 src  w %101 dst
//
// It gets elements 0 to 31 of %90, the gradient of h.0.ln_1.weight, which it keeps at %10[0:32]. Rank 5 gets elements
// 160 to 191 of %90, and has the same program: so these must be the gradient of what rank 5 keeps at %10[0:32]. Cost:
// for each rank, linear in the pieces of its slice.

#include "verify/model/slice_rules.h"

#include <algorithm>

namespace tessera::host {
namespace {

/// Where a rank keeps the values of some elements of a parameter: the first, and how many after it are beside it.
struct KeptPlace {
  Content first;
  uint64_t num_elements;
};

std::optional<KeptPlace> place_of(const RankWalk& walk, int parameter, uint64_t element) {
  const Program& program = walk.program();
  for (const Home& home : program.homes)
    for (const HomeRun& run : runs_of(home, *program.model)) {
      if (run.parameter != parameter || element < run.element || element >= run.element + run.num_elements) continue;
      const HomeRole& values = role_of_values(home);
      Content kept{ContentKind::kept};
      kept.index = walk.number_of(program.buffer(values.buffer));
      kept.shift = static_cast<int64_t>(values.offset + run.offset + element - run.element);
      return KeptPlace{kept, run.element + run.num_elements - element};
    }
  return std::nullopt;
}

/// Whether these are the gradients of the values, pads aside.
bool are_gradients_of(const ContentParts& values, const ContentParts& gradients) {
  for (const ContentPart& value : values) {
    if (value.content.kind == ContentKind::zero) continue;
    const int64_t first = value.content.shift + static_cast<int64_t>(value.offset);
    for (const ContentPart& part : slice(gradients, value.offset, value.offset + value.num_elements))
      if (part.content.kind != ContentKind::gradient || part.content.index != value.content.index ||
          part.content.shift != first)
        return false;
  }
  return true;
}

}  // namespace

std::optional<int> rank_with_other_slice(const WalkedRanks& walked, RankWalk& walk, std::span<const int> ranks,
                                         const ContentParts& sum, const std::vector<uint64_t>& offsets) {
  const auto is_other = [&](int rank) {
    return rank != walk.rank() && walked.classes.representative(rank) == walk.rank();
  };
  if (std::ranges::none_of(ranks, is_other)) return std::nullopt;
  const auto position = static_cast<size_t>(std::ranges::find(ranks, walk.rank()) - ranks.begin());
  for (const ContentPart& part : slice(sum, offsets[position], offsets[position + 1]))
    for (uint64_t done = 0; part.content.kind == ContentKind::gradient && done < part.num_elements;) {
      const uint64_t begin = part.offset + done;
      const auto element = static_cast<uint64_t>(part.content.shift + static_cast<int64_t>(begin));
      const auto place = place_of(walk, part.content.index, element);
      if (!place) return std::nullopt;  // it is joined with others before it is used
      const uint64_t n = std::min(place->num_elements, part.num_elements - done);
      for (size_t i = 0; i < ranks.size(); ++i) {
        if (!is_other(ranks[i])) continue;
        const ContentParts values = walked.homes(ranks[i]).resolve(ContentParts{{0, n, place->first}});
        if (!are_gradients_of(values, slice(sum, offsets[i] + begin, offsets[i] + begin + n))) return ranks[i];
      }
      done += n;
    }
  return std::nullopt;
}

}  // namespace tessera::host
