// The domain of verify_placement: how an element of a buffer relates to the ranks of one axis. DTensor calls it a
// placement (Replicate, Partial, Shard); here it is inferred from the program, range by range, and not declared, and
// `varying` is added for values that differ by rank (activations of the rank's own tokens).
//
// The sum of two placements; a sum without a placement is a diagnostic:
//
//     +             replicated   partial   shard     varying
//     replicated    replicated   -         varying   varying
//     partial       -            partial   -         -
//     shard         varying      -         shard     varying
//     varying       varying      -         varying   varying
//
// Encoded addends cannot be summed: only the strategy knows how to decode them, in its calls (call_rules.cc).
//
// Zero and unknown fit everything, and what was received everything but a partial sum: it is whole on each rank that
// has it, and would be counted by each. A minimum or maximum of parts is in no sum. `factor` is the product of all
// scales so far, so that a strategy that averages where it must sum is found too. Cost: a read or write is logarithmic
// in the pieces of its buffer, and linear in those that it covers.

#include "verify/placement/placement.h"

#include <algorithm>

namespace tessera::host {

std::string placement_text(const Placement& placement, const std::string& axis) {
  std::string text;
  switch (placement.kind) {
    case PlacementKind::unknown:
      text = "unknown";
      break;
    case PlacementKind::received:
      text = "sent by other ranks";
      break;
    case PlacementKind::local:
      text = "what this rank has from an earlier step";
      break;
    case PlacementKind::zero:
      text = "zero";
      break;
    case PlacementKind::replicated:
      text = "the same on all ranks of " + axis;
      break;
    case PlacementKind::partial:
      text = "an unreduced partial sum over " + axis;
      break;
    case PlacementKind::shard:
      text = "split over " + axis;
      break;
    case PlacementKind::varying:
      text = "different on each rank of " + axis;
      break;
    case PlacementKind::extremum:
      text = "a minimum or maximum of one part of " + axis;
      break;
    case PlacementKind::encoded:
      text = "an encoded addend of the sum over " + axis;
      break;
    case PlacementKind::gathered:
      text = "the encoded addends of all ranks of " + axis;
      break;
    case PlacementKind::exchanged:
      text = "the encoded addends that all ranks of " + axis + " have of a part of the sum";
      break;
    case PlacementKind::bound:
      text = "a minimum or maximum of encoded addends over " + axis;
      break;
  }
  return placement.is_scaled() ? text + ", scaled by " + std::to_string(placement.factor) : text;
}

std::optional<Placement> placement_of_sum(const Placement& a, const Placement& b) {
  const auto meets_addend = [](const Placement& x, const Placement& y) {
    return x.kind == PlacementKind::received && y.kind == PlacementKind::partial;
  };
  if (meets_addend(a, b) || meets_addend(b, a)) return std::nullopt;
  if (a.is_neutral()) return b.is_neutral() && a.kind < b.kind ? a : b;
  if (b.is_neutral()) return a;
  if (a.is_code() || b.is_code()) return std::nullopt;
  // x/n + x is neither a sum nor an average.
  const Placement ratio{PlacementKind::unknown, a.factor / b.factor};
  if (ratio.is_scaled()) return std::nullopt;
  const auto is_of_part = [](const Placement& x) {
    return x.kind == PlacementKind::partial || x.kind == PlacementKind::extremum;
  };
  if (a.kind == b.kind && a.kind != PlacementKind::extremum) return a;
  if (is_of_part(a) || is_of_part(b)) return std::nullopt;
  return Placement{PlacementKind::varying, a.factor};
}

Placement common_placement(const PlacementParts& parts) {
  Placement common;
  for (const PlacementPart& part : parts) {
    if (part.placement.is_neutral()) continue;
    if (common.is_neutral()) common = part.placement;
    if (common.kind != part.placement.kind || !common.code.is_same(part.placement.code))
      return {PlacementKind::received};
  }
  return common;
}

PlacementParts slice(const PlacementParts& parts, uint64_t begin, uint64_t end) {
  PlacementParts result;
  for (const PlacementPart& part : parts) {
    const uint64_t from = std::max(begin, part.offset), to = std::min(end, part.offset + part.num_elements);
    if (from < to) result.push_back({from - begin, to - from, part.placement});
  }
  return result;
}

std::vector<PlacementPair> zip(const PlacementParts& first, const PlacementParts& second) {
  std::vector<PlacementPair> result;
  for (size_t i = 0, k = 0; i < first.size() && k < second.size();) {
    const uint64_t begin = std::max(first[i].offset, second[k].offset);
    const uint64_t first_end = first[i].offset + first[i].num_elements;
    const uint64_t second_end = second[k].offset + second[k].num_elements;
    const uint64_t end = std::min(first_end, second_end);
    if (begin < end) result.push_back({begin, end - begin, first[i].placement, second[k].placement});
    if (first_end == end) ++i;
    if (second_end == end) ++k;
  }
  return result;
}

PlacementParts PlacementMap::read(const Binding& range) {
  PlacementParts result;
  for (const auto& [begin, part] : values_.parts(range))
    result.push_back({begin - range.offset, part.end - begin, part.value});
  return result;
}

void PlacementMap::write(const Binding& range, const Placement& placement) {
  values_.assign(range, range.offset, range.num_elements, placement);
}

void PlacementMap::write(const Binding& range, const PlacementParts& parts) {
  for (const PlacementPart& part : parts)
    values_.assign(range, range.offset + part.offset, part.num_elements, part.placement);
}

PlacementKind layout_placement(const Program& program, int parameter, int axis, uint32_t role) {
  const LayoutEntry* split = entry_on(program, parameter, axis, role);
  if (!split || split->kind == TSR_LAYOUT_REPLICATED) return PlacementKind::replicated;
  return split->kind == TSR_LAYOUT_SPLIT ? PlacementKind::shard : PlacementKind::varying;
}

}  // namespace tessera::host
