// The domain of verify_meaning: what an element of a buffer is to the ranks of one axis. DTensor calls it a placement
// (Replicate, Partial, Shard); here it is inferred from the program and not declared, element range by element range,
// and `different` is added for values that ranks have of their own (activations of their tokens).
//
// The sum of two meanings; a sum that means nothing is a finding:
//
//     +             replicated   partial   split       different
//     replicated    replicated   -         different   different
//     partial       -            partial   -           -
//     split         different    -         split       different
//     different     different    -         different   different
//
// Zero and unknown fit everything. `factor` is what elements have been multiplied by on the way, so that a strategy
// that averages where it must sum is found too.

#include "verify/meaning.h"

#include <algorithm>

namespace tessera::host {

std::string meaning_text(const Meaning& meaning, const std::string& axis) {
  std::string text;
  switch (meaning.state) {
    case State::unknown:
      text = "unknown";
      break;
    case State::zero:
      text = "zero";
      break;
    case State::replicated:
      text = "the same on all ranks of " + axis;
      break;
    case State::partial:
      text = "a sum over " + axis + " that nothing has taken yet";
      break;
    case State::split:
      text = "split over " + axis;
      break;
    case State::different:
      text = "different on each rank of " + axis;
      break;
  }
  return meaning.is_scaled() ? text + ", scaled by " + std::to_string(meaning.factor) : text;
}

std::optional<Meaning> meaning_of_sum(const Meaning& a, const Meaning& b) {
  if (a.is_neutral()) return a.state == State::unknown && b.state == State::zero ? a : b;
  if (b.is_neutral()) return a;
  // x/n + x is neither the sum nor the average of anything.
  const Meaning ratio{State::unknown, a.factor / b.factor};
  if (ratio.is_scaled()) return std::nullopt;
  if (a.state == b.state) return a;
  if (a.state == State::partial || b.state == State::partial) return std::nullopt;
  return Meaning{State::different, a.factor};
}

Meaning common_meaning(const MeaningParts& parts) {
  Meaning common;
  for (const MeaningPart& part : parts) {
    if (part.meaning.is_neutral()) continue;
    if (common.is_neutral()) common = part.meaning;
    if (common.state != part.meaning.state) return {};
  }
  return common;
}

MeaningParts slice(const MeaningParts& parts, uint64_t begin, uint64_t end) {
  MeaningParts result;
  for (const MeaningPart& part : parts) {
    const uint64_t from = std::max(begin, part.offset), to = std::min(end, part.offset + part.num_elements);
    if (from < to) result.push_back({from - begin, to - from, part.meaning});
  }
  return result;
}

std::vector<MeaningPair> zip(const MeaningParts& first, const MeaningParts& second) {
  std::vector<MeaningPair> result;
  for (size_t i = 0, k = 0; i < first.size() && k < second.size();) {
    const uint64_t begin = std::max(first[i].offset, second[k].offset);
    const uint64_t first_end = first[i].offset + first[i].num_elements;
    const uint64_t second_end = second[k].offset + second[k].num_elements;
    const uint64_t end = std::min(first_end, second_end);
    if (begin < end) result.push_back({begin, end - begin, first[i].meaning, second[k].meaning});
    if (first_end == end) ++i;
    if (second_end == end) ++k;
  }
  return result;
}

MeaningMap::MeaningMap(const Program& program) : program_(program) {
  for (const Buffer& one : program.buffers)
    buffers_.emplace_back(one.num_elements);
}

MeaningParts MeaningMap::read(const Binding& range) {
  MeaningParts result;
  for (const auto& [begin, part] : buffer(range.buffer).parts(range.offset, range.offset + range.num_elements))
    result.push_back({begin - range.offset, part.end - begin, part.value});
  return result;
}

void MeaningMap::write(const Binding& range, const Meaning& meaning) {
  buffer(range.buffer).assign(range.offset, range.offset + range.num_elements, meaning);
}

void MeaningMap::write(const Binding& range, const MeaningParts& parts) {
  for (const MeaningPart& part : parts) {
    const uint64_t begin = range.offset + part.offset;
    buffer(range.buffer).assign(begin, begin + part.num_elements, part.meaning);
  }
}

State layout_state(const Program& program, int parameter, int axis, uint32_t role) {
  const Split* split = split_on(program, parameter, axis, role);
  if (!split || split->kind == TSR_LAYOUT_REPLICATED) return State::replicated;
  return split->kind == TSR_LAYOUT_SPLIT ? State::split : State::different;
}

}  // namespace tessera::host
