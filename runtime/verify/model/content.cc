// Value numbers. Two ranges hold the same when their contents are equal, field by field; so a copy keeps its content,
// and what a kernel writes is named by the model once its operands have been checked. With --offload activations:
//
//     5     forward h.0.attention mb=0  ...  w %30 s:0  ...       %30 holds s0 of h.0.attention mb=0
//     23    copy  r %30 src  w %61 dst                            %61 the same, in host memory
//     69    copy  r %61 src  w %113 dst                           %113 the same
//     87    backward h.0.attention mb=0  ...  r %113 s:0  ...     needs it, and finds it
//
// Sums are named by the set of what has been added, so that an addend that is missing or there twice shows. Cost:
// logarithmic in the pieces a buffer falls into; sets are kept once.

#include "verify/model/content.h"

#include <algorithm>
#include <iterator>

#include "base/concat.h"

namespace tessera::host {

Content Content::moved_by(int64_t positions) const {
  Content moved = *this;
  if (has_places() || kind == ContentKind::opaque) moved.shift += positions;
  return moved;
}

void Content::round_to(tsr_dtype dtype) {
  constexpr uint32_t kFullBits = 32;
  if (!has_places() || TSR_DTYPE_BITS(dtype) >= kFullBits) return;
  rounded = rounded == 0 || rounded == dtype ? dtype : kSeveralDtypes;
  if (summed != 0) is_sum_rounded = true;
}

void Content::scale_by(double by) {
  constexpr double kRounding = 1e-9;
  factor *= by;
  if (factor > 1 - kRounding && factor < 1 + kRounding) factor = 1;
}

void append(ContentParts& parts, const ContentPart& part) {
  if (part.num_elements == 0) return;
  const bool goes_on = !parts.empty() && parts.back().content == part.content &&
                       parts.back().offset + parts.back().num_elements == part.offset;
  if (goes_on)
    parts.back().num_elements += part.num_elements;
  else
    parts.push_back(part);
}

ContentParts slice(const ContentParts& parts, uint64_t begin, uint64_t end) {
  ContentParts result;
  for (const ContentPart& part : parts) {
    const uint64_t from = std::max(begin, part.offset), to = std::min(end, part.offset + part.num_elements);
    if (from < to) append(result, {from - begin, to - from, part.content.moved_by(static_cast<int64_t>(begin))});
  }
  return result;
}

void append_at(ContentParts& parts, uint64_t at, const ContentParts& more) {
  for (const ContentPart& part : more)
    append(parts, {at + part.offset, part.num_elements, part.content.moved_by(-static_cast<int64_t>(at))});
}

void accept_rounding(ContentParts& parts, tsr_dtype dtype) {
  for (ContentPart& part : parts)
    if (part.content.rounded == dtype) {
      part.content.rounded = 0;
      part.content.is_sum_rounded = false;
    }
}

uint32_t AddendSets::id_of(Set set) {
  const auto [found, is_new] = ids_.try_emplace(set, static_cast<uint32_t>(sets_.size()));
  if (is_new) sets_.push_back(std::move(set));
  return found->second;
}

uint32_t AddendSets::with(uint32_t set, uint32_t addend) {
  const auto [known, is_new] = with_.try_emplace({set, addend}, kTwice);
  if (!is_new) return known->second;
  Set larger = sets_[set];
  const auto at = std::ranges::lower_bound(larger, addend);
  if (at != larger.end() && *at == addend) return kTwice;
  larger.insert(at, addend);
  return with_[{set, addend}] = id_of(std::move(larger));
}

uint32_t AddendSets::united(uint32_t a, uint32_t b) {
  if (a == 0 || b == 0) return a + b;
  const auto [known, is_new] = united_.try_emplace({a, b}, kTwice);
  if (!is_new) return known->second;
  Set both;
  std::ranges::set_union(sets_[a], sets_[b], std::back_inserter(both));
  if (both.size() < sets_[a].size() + sets_[b].size()) return kTwice;
  return united_[{a, b}] = id_of(std::move(both));
}

uint32_t AddendSets::merged(uint32_t a, uint32_t b) {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  Set both;
  std::ranges::set_union(sets_[a], sets_[b], std::back_inserter(both));
  return id_of(std::move(both));
}

uint32_t AddendSets::number_of(const UsedElements& used) {
  const auto [known, is_new] = numbers_.try_emplace(used, static_cast<uint32_t>(used_.size()));
  if (is_new) used_.push_back(used);
  return known->second;
}

namespace {

/// Elements of a parameter in a range; of what other ranks of the class have in their own places, all.
UsedElements used_in(const ContentPart& part) {
  const Content& content = part.content;
  const auto parameter = static_cast<uint32_t>(content.index);
  if (content.own || content.local) return {parameter};
  const auto begin = static_cast<uint64_t>(static_cast<int64_t>(part.offset) + content.shift);
  return {parameter, begin, begin + part.num_elements};
}

}  // namespace

Content made_of(const std::vector<ContentParts>& operands, AddendSets& sets) {
  std::vector<UsedElements> used;
  Content made{ContentKind::opaque};
  for (const ContentParts& parts : operands)
    for (const ContentPart& part : parts) {
      if (part.content.kind == ContentKind::opaque) made.addends = sets.merged(made.addends, part.content.addends);
      if (part.content.is_sliced()) used.push_back(used_in(part));
    }
  std::ranges::sort(used);
  AddendSets::Set numbers;
  for (auto first = used.begin(); first != used.end();) {  // what touches is one
    UsedElements joined = *first;
    for (++first; first != used.end() && first->parameter == joined.parameter && first->begin <= joined.end; ++first)
      joined.end = std::max(joined.end, first->end);
    numbers.push_back(sets.number_of(joined));
  }
  std::ranges::sort(numbers);
  made.addends = sets.merged(made.addends, sets.id_of(std::move(numbers)));
  return made;
}

Content sum_with_made(const Content& a, const Content& b, AddendSets& sets) {
  const auto used = [&](const Content& content) {
    if (content.is_sliced()) return sets.id_of({sets.number_of({static_cast<uint32_t>(content.index)})});
    return content.kind == ContentKind::opaque ? content.addends : 0;
  };
  Content sum{ContentKind::opaque};
  sum.addends = sets.merged(used(a), used(b));
  return sum;
}

ContentParts ContentMap::read(const Binding& range) {
  ContentParts parts;
  for (const auto& [begin, part] : values_.parts(range))
    append(parts, {begin - range.offset, part.end - begin, part.value.moved_by(static_cast<int64_t>(range.offset))});
  return parts;
}

void ContentMap::write(const Binding& range, const Content& content) {
  values_.assign(range, range.offset, range.num_elements, content.moved_by(-static_cast<int64_t>(range.offset)));
}

void ContentMap::write(const Binding& range, const ContentParts& parts) {
  for (const ContentPart& part : parts)
    values_.assign(range, range.offset + part.offset, part.num_elements,
                   part.content.moved_by(-static_cast<int64_t>(range.offset)));
}

namespace {

std::string scalar_text(const Content& content) {
  switch (content.index) {
    case TSR_SCALAR_CLIP:
      return "the result of clip";
    case TSR_SCALAR_STEP:
      return content.version ? "the step count, with this step" : "the step count, without this step";
    case TSR_SCALAR_LR:
      return "the learning rate";
    default:
      return "the loss scale";
  }
}

std::string state_text(const Content& content, const Model& model) {
  const std::string& name = model.parameters[static_cast<size_t>(content.index)].name;
  const std::string what =
      content.role == TSR_HOME_VALUE ? name : concat("the ", home_role_name(content.role), " of ", name);
  return content.version ? what + ", updated" : what;
}

std::string whole_text(const Content& content, const Model& model, const std::vector<std::string>& names) {
  const auto index = static_cast<size_t>(content.index);
  const auto value = [&] { return concat(content.is_rows ? "rows of " : "", model.values[index].name); };
  switch (content.kind) {
    case ContentKind::opaque:
      return "what a strategy made";
    case ContentKind::zero:
      return "zeros";
    case ContentKind::kept:
      return concat("what ", names[index], content.version ? " has, updated" : " has");
    case ContentKind::state:
      return state_text(content, model);
    case ContentKind::value:
      return value();
    case ContentKind::value_gradient:
      return "the gradient of " + value();
    case ContentKind::gradient:
      return "the gradient of " + model.parameters[index].name;
    case ContentKind::saved:
      return concat("s", content.part, " of ", model.segments[index].name);
    case ContentKind::context:
      return concat("c", content.part, " of ", model.segments[index].name);
    case ContentKind::loss:
      return "the loss";
    case ContentKind::correct:
      return "the count of correct predictions";
    case ContentKind::squares:
      return "the sum of squares";
    case ContentKind::run_words:
      return "run words";
    case ContentKind::scalar:
      return scalar_text(content);
    default:
      return "nothing that the model names";
  }
}

}  // namespace

std::string content_text(const Content& content, const Model& model, const std::vector<std::string>& names) {
  std::string text = whole_text(content, model, names);
  if (content.micro_batch >= 0) text += concat(" mb=", content.micro_batch);
  if (content.shift != 0 && content.has_places()) text += concat(" from element ", content.shift, " on");
  if (content.factor != 1) text += concat(", scaled by ", content.factor);
  return text;
}

}  // namespace tessera::host
