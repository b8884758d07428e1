// Homes by the buffers that keep them. Ranks with one program may own other elements: their buffers are the same, what
// the buffers keep is not. Under fsdp on two ranks, %10 = home h.0 persistent f32[6656] keeps
//
//     rank 0    %10[0:32]      h.0.ln_1.weight
//     rank 1    %10[0:2304]    h.0.mlp.c_fc.weight from element 1792 on
//
// So a content that was kept is named by its place until it leaves its rank or meets a need, and then by this table of
// the rank that it comes from. Cost: linear in the pieces; a look-up is logarithmic in them.

#include "verify/model/home_table.h"

#include <algorithm>
#include <iterator>

#include "base/concat.h"

namespace tessera::host {

int KeptBuffers::number_of(const Buffer& buffer) {
  const std::string name = concat(buffer.kind, ' ', buffer.strategy, ' ', buffer.name);
  const auto [found, is_new] = numbers_.try_emplace(name, static_cast<int>(names_.size()));
  if (is_new) names_.push_back(buffer.name);
  return found->second;
}

namespace {

/// Where an element of a whole parameter is in the rank's part, and how many that follow are beside it.
std::pair<uint64_t, uint64_t> place_in_part(const Parameter& parameter, uint64_t whole, uint64_t num_elements) {
  if (!parameter.part) return {whole, num_elements};
  const auto& pieces = parameter.part->pieces;
  const auto after = std::ranges::upper_bound(pieces, whole, {}, &ParameterPiece::whole_offset);
  if (after == pieces.begin()) return {0, 0};
  const ParameterPiece& piece = *std::prev(after);
  const uint64_t within = whole - piece.whole_offset;
  if (within >= piece.num_elements) return {0, 0};
  return {piece.local_offset + within, std::min(num_elements, piece.num_elements - within)};
}

}  // namespace

std::vector<HomeRun> runs_of(const Home& home, const Model& model) {
  std::vector<HomeRun> runs;
  for (const tsr_piece& piece : home.pieces)
    for (uint64_t done = 0; done < piece.num_elements;) {
      const Parameter& parameter = model.parameters[static_cast<size_t>(piece.parameter)];
      const auto [element, n] = place_in_part(parameter, piece.parameter_offset + done, piece.num_elements - done);
      if (n == 0) break;  // not of this rank's part: the rules for homes say so
      const uint64_t offset = piece.home_offset + done;
      const bool goes_on = !runs.empty() && runs.back().parameter == piece.parameter &&
                           runs.back().offset + runs.back().num_elements == offset &&
                           runs.back().element + runs.back().num_elements == element;
      if (goes_on)
        runs.back().num_elements += n;
      else
        runs.push_back({offset, n, piece.parameter, element});
      done += n;
    }
  return runs;
}

HomeTable::HomeTable(const Program& program, KeptBuffers& buffers) {
  for (const Home& home : program.homes) {
    const std::vector<HomeRun> runs = runs_of(home, *program.model);
    const HomeRole& values = role_of_values(home);
    for (const auto& [number, role] : home.roles) {
      if (role.buffer == 0 || !program.buffer(role.buffer).persistent) continue;
      auto& kept = kept_[buffers.number_of(program.buffer(role.buffer))];
      for (const HomeRun& run : runs) {
        Content content{ContentKind::state};
        content.role = number == TSR_HOME_MASTER ? TSR_HOME_VALUE : number;
        content.index = run.parameter;
        content.shift = static_cast<int64_t>(run.element);
        const uint64_t begin = role.offset + run.offset;
        kept.insert_or_assign(begin, Kept{begin + run.num_elements, content});
        if (role.buffer != values.buffer || role.offset != values.offset) continue;
        Content place{ContentKind::kept};
        place.index = buffers.number_of(program.buffer(role.buffer));
        place.shift = static_cast<int64_t>(begin);
        places_.insert_or_assign({run.parameter, run.element}, Place{place, run.num_elements});
      }
    }
  }
}

void HomeTable::resolve(const ContentPart& part, ContentParts& result) const {
  const auto buffer = kept_.find(part.content.index);
  // Positions in the buffer, from those in the binding.
  const int64_t shift = part.content.shift;
  const uint64_t begin = part.offset + static_cast<uint64_t>(shift), end = begin + part.num_elements;
  uint64_t at = begin;
  const auto pad_up_to = [&](uint64_t to) {
    if (to > at) append(result, {at - static_cast<uint64_t>(shift), to - at, {ContentKind::zero}});
    at = std::max(at, to);
  };
  if (buffer != kept_.end()) {
    auto next = buffer->second.upper_bound(begin);
    if (next != buffer->second.begin()) --next;
    for (; next != buffer->second.end() && next->first < end; ++next) {
      if (next->second.end <= at) continue;
      pad_up_to(std::max(at, next->first));
      const uint64_t to = std::min(end, next->second.end);
      Content content = next->second.content.moved_by(shift - static_cast<int64_t>(next->first));
      content.version = part.content.version;
      content.rounded = part.content.rounded;
      content.factor = part.content.factor;
      content.is_mean = part.content.is_mean;
      append(result, {at - static_cast<uint64_t>(shift), to - at, content});
      at = to;
    }
  }
  pad_up_to(end);
}

std::optional<HomeTable::Place> HomeTable::place_of(int parameter, uint64_t element) const {
  const auto after = places_.upper_bound({parameter, element});
  if (after == places_.begin()) return std::nullopt;
  const auto& [begin, place] = *std::prev(after);
  const uint64_t within = element - begin.second;
  if (begin.first != parameter || within >= place.num_elements) return std::nullopt;
  return Place{place.kept.moved_by(static_cast<int64_t>(within)), place.num_elements - within};
}

uint64_t HomeTable::num_missing(int parameter, uint64_t element) const {
  const auto next = places_.upper_bound({parameter, element});
  return next != places_.end() && next->first.first == parameter ? next->first.second - element : UINT64_MAX;
}

ContentParts HomeTable::resolve(const ContentParts& parts) const {
  ContentParts result;
  for (const ContentPart& part : parts)
    if (part.content.kind == ContentKind::kept)
      resolve(part, result);
    else
      append(result, part);
  return result;
}

}  // namespace tessera::host
