// Of more than 16 ranks one of each class is walked, here rank 0 of fsdp:
//
//     52    comm.dp.gradient    reduce_scatter group=dp reduce=sum  r %90 src  w %101 dst
//
// It gets elements 0 to 31 of %90, the gradient of h.0.ln_1.weight, which it keeps at %10[0:32]. Rank 5 gets elements
// 160 to 191 of %90, and has the same program: so these must be the gradient of what rank 5 keeps at %10[0:32], or
// padding where that is, with the same micro-batches in it. What neither rank keeps may be joined with other slices
// before it is used. Cost: for each rank, linear in the pieces of its slice, times the logarithm of its homes' pieces.

#include "verify/model/slice_rules.h"

#include <algorithm>
#include <vector>

namespace tessera::host {
namespace {

/// A range of a slice: of a parameter that the rank keeps at a place, of one that it does not keep, or of nothing.
struct PlacedPart {
  uint64_t offset, num_elements;
  bool is_of_parameter;
  std::optional<Content> kept;
  Content state = {};                   ///< all but which elements it is of: what was done to it
  std::vector<int> micro_batches = {};  ///< of a gradient: those that are complete in it

  uint64_t end() const { return offset + num_elements; }
};

std::vector<PlacedPart> placed(const RankWalk& walk, const AddendSets& sets, const HomeTable& homes,
                               const ContentParts& slice) {
  std::vector<PlacedPart> result;
  for (const ContentPart& part : slice) {
    const Content& content = part.content;
    const bool is_of_parameter = content.is_sliced();
    Content state = content;
    state.index = -1, state.shift = 0, state.addends = 0;
    const std::vector<int> micro_batches =
        content.kind == ContentKind::gradient
            ? walk.needs().complete_micro_batches(content.index, sets.set(content.addends))
            : std::vector<int>();
    for (uint64_t done = 0; done < part.num_elements;) {
      PlacedPart next{part.offset + done, part.num_elements - done, is_of_parameter, std::nullopt, state,
                      micro_batches};
      if (is_of_parameter) {
        const auto element = static_cast<uint64_t>(content.shift + static_cast<int64_t>(next.offset));
        const auto place = homes.place_of(content.index, element);
        if (place) next.kept = place->kept;
        next.num_elements =
            std::min(next.num_elements, place ? place->num_elements : homes.num_missing(content.index, element));
      }
      result.push_back(next);
      done += next.num_elements;
    }
  }
  return result;
}

bool is_padding(const HomeTable& homes, const Content& kept, uint64_t num_elements) {
  const ContentParts parts = homes.resolve(ContentParts{{0, num_elements, kept}});
  return std::ranges::all_of(parts, [](const ContentPart& part) { return part.content.kind == ContentKind::zero; });
}

/// Where both have elements: what one of the ranks keeps there the other one keeps, too, or it has padding there.
bool are_alike(const HomeTable& own_homes, const PlacedPart& own, const HomeTable& homes, const PlacedPart& other) {
  const uint64_t begin = std::max(own.offset, other.offset), n = std::min(own.end(), other.end()) - begin;
  const auto place = [&](const PlacedPart& part) {
    return part.kept->moved_by(static_cast<int64_t>(begin - part.offset));
  };
  if (own.kept && other.kept)
    return place(own) == place(other) && own.state == other.state && own.micro_batches == other.micro_batches;
  if (own.kept) return !other.is_of_parameter && is_padding(homes, place(own), n);
  if (other.kept) return !own.is_of_parameter && is_padding(own_homes, place(other), n);
  return own.is_of_parameter == other.is_of_parameter;
}

/// Whether one program can use both slices: each rank keeps at the same place what it gets at the same position.
bool are_alike(const HomeTable& own_homes, const std::vector<PlacedPart>& own, const HomeTable& homes,
               const std::vector<PlacedPart>& other) {
  size_t i = 0, k = 0;
  while (i < own.size() && k < other.size()) {
    if (!are_alike(own_homes, own[i], homes, other[k])) return false;
    const uint64_t own_end = own[i].end(), other_end = other[k].end();
    if (own_end <= other_end) ++i;
    if (other_end <= own_end) ++k;
  }
  const auto is_kept = [](const PlacedPart& part) { return part.kept.has_value(); };  // beyond the end of the shorter
  return std::none_of(own.begin() + static_cast<ptrdiff_t>(i), own.end(), is_kept) &&
         std::none_of(other.begin() + static_cast<ptrdiff_t>(k), other.end(), is_kept);
}

}  // namespace

std::optional<int> rank_with_other_slice(const WalkedRanks& walked, RankWalk& walk, std::span<const int> ranks,
                                         const SliceOf& slice_of) {
  const auto is_other = [&](int rank) {
    return rank != walk.rank() && walked.classes.representative(rank) == walk.rank();
  };
  if (std::ranges::none_of(ranks, is_other)) return std::nullopt;
  const HomeTable& own_homes = walked.homes(walk.rank());
  const auto position = static_cast<size_t>(std::ranges::find(ranks, walk.rank()) - ranks.begin());
  const std::vector<PlacedPart> own = placed(walk, walked.sets, own_homes, slice_of(position));
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (!is_other(ranks[i])) continue;
    const HomeTable& homes = walked.homes(ranks[i]);
    if (!are_alike(own_homes, own, homes, placed(walk, walked.sets, homes, slice_of(i)))) return ranks[i];
  }
  return std::nullopt;
}

}  // namespace tessera::host
