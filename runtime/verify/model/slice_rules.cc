// Of more than 16 ranks one of each class is walked, here rank 0 of fsdp:
//
//     52    comm.dp.gradient    reduce_scatter group=dp reduce=sum  r %90 src  w %101 dst
//
// It gets elements 0 to 31 of %90, the gradient of h.0.ln_1.weight, which it keeps at %10[0:32]. Rank 5 gets elements
// 160 to 191 of %90, and has the same program: so these must be the gradient of what rank 5 keeps at %10[0:32]. Cost:
// for each rank, linear in the pieces of its slice.

#include "verify/model/slice_rules.h"

#include <algorithm>
#include <vector>

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

bool is_of_parameter(const ContentPart& part) {
  return part.content.kind == ContentKind::gradient || part.content.kind == ContentKind::state;
}

/// Whether a slice is of the values, or of their gradients, pads aside.
bool is_of(const ContentParts& values, const ContentParts& own, ContentKind kind) {
  for (const ContentPart& value : values) {
    if (value.content.kind == ContentKind::zero) continue;
    const int64_t first = value.content.shift + static_cast<int64_t>(value.offset);
    for (const ContentPart& part : slice(own, value.offset, value.offset + value.num_elements))
      if (part.content.kind != kind || part.content.index != value.content.index || part.content.shift != first)
        return false;
  }
  return true;
}

}  // namespace

std::optional<int> rank_with_other_slice(const WalkedRanks& walked, RankWalk& walk, std::span<const int> ranks,
                                         const SliceOf& slice_of) {
  const auto is_other = [&](int rank) {
    return rank != walk.rank() && walked.classes.representative(rank) == walk.rank();
  };
  const auto position = static_cast<size_t>(std::ranges::find(ranks, walk.rank()) - ranks.begin());
  const ContentParts own = slice_of(position);
  if (std::ranges::none_of(ranks, is_other) || std::ranges::none_of(own, is_of_parameter)) return std::nullopt;
  std::vector<ContentParts> slices;
  for (size_t i = 0; i < ranks.size(); ++i)
    slices.push_back(is_other(ranks[i]) ? slice_of(i) : ContentParts{});
  for (const ContentPart& part : own) {
    if (!is_of_parameter(part)) continue;
    const ContentKind kind = part.content.kind;
    for (uint64_t done = 0; done < part.num_elements;) {
      const uint64_t begin = part.offset + done;
      const auto element = static_cast<uint64_t>(part.content.shift + static_cast<int64_t>(begin));
      const auto place = place_of(walk, part.content.index, element);
      if (!place) return std::nullopt;  // it is joined with others before it is used
      const uint64_t n = std::min(place->num_elements, part.num_elements - done);
      for (size_t i = 0; i < ranks.size(); ++i) {
        if (!is_other(ranks[i])) continue;
        const ContentParts values = walked.homes(ranks[i]).resolve(ContentParts{{0, n, place->first}});
        if (!is_of(values, slice(slices[i], begin, begin + n), kind)) return ranks[i];
      }
      done += n;
    }
  }
  return std::nullopt;
}

}  // namespace tessera::host
