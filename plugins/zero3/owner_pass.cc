// How zero3 rewrites a program. A unit is a sequence of ranges: neighboring tensors with the same owner. Stage 3 over
// 2 ranks, rank 0's program (tests/golden/programs/two-blocks-zero3-stage-3.txt), where %11 is the part of h.0 that
// rank 0 owns:
//
//     %20 = gathered h.0 f32[13312]
//     4     comm.dp.gather    broadcast group=dp root=1  w %20+0:4864 dst  # 3
//     5     comm.dp.gather    broadcast group=dp root=0  w %20+4864:4096 dst  r %11 src
//     6     comm.dp.gather    broadcast group=dp root=1  w %20+8960:4352 dst
//
// and stage 2, where the sum of a range goes to its owner and the new values come back at the end of the step:
//
//     53    comm.dp.gradient  reduce group=dp root=1 reduce=sum  r %79+0:4864 src  w %90 w:0  # 52
//     54    comm.dp.gradient  reduce group=dp root=0 reduce=sum  r %79+4864:4096 src  w %91 dst  w %92 w:0
//     75    comm.dp.gather    broadcast group=dp root=1  a %3+0:4864 dst
//     76    comm.dp.gather    broadcast group=dp root=0  a %3+4864:4096 dst  # 69
// All ranks list the same collectives in the same order; the owner alone binds the source of a broadcast and the
// destination of a reduce. There is one collective for each range, not for each tensor: a range ends where the owner
// changes.

#include "owner_pass.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

namespace tessera::zero3 {
namespace {

using storage::BufferRange;
using storage::GradientSum;
using storage::Inserter;
using storage::ParamGroup;
using storage::Unshard;

std::vector<ParamGroup> one_group_per_param(const ProgramView& view) {
  std::vector<ParamGroup> groups;
  for (const storage::FlatParam& param : storage::flat_params(view))
    groups.emplace_back().add(param);
  return groups;
}

uint64_t offset_of(const tsr_home& home) {
  return role_of(home, TSR_HOME_VALUE).offset;
}

}  // namespace

std::vector<OwnedRange> owned_ranges(const ParamGroup& group, std::span<const int> owners) {
  std::vector<OwnedRange> ranges;
  for (const tsr_home* home : group.first().homes) {
    if (home->num_pieces == 0) continue;
    const int owner = owners[static_cast<size_t>(home->pieces[0].parameter)];
    if (ranges.empty() || ranges.back().owner != owner) {
      // A range ends where the next begins, so the pads between them are sent as well and every element has an owner.
      if (!ranges.empty()) ranges.back().end = offset_of(*home);
      ranges.push_back({owner, offset_of(*home), group.num_elements, 0, {}});
    }
    ranges.back().homes.push_back(home);
  }
  std::map<int, uint64_t> owned;  // elements so far, by owner
  for (OwnedRange& range : ranges) {
    uint64_t& end = owned[range.owner];
    range.own_begin = end;
    end += range.num_elements();
  }
  return ranges;
}

OwnerPass::OwnerPass(const ProgramView& view, const Edit& edit, std::span<const int> owners, int stage,
                     const storage::UnshardOptions& options)
    : ShardingPass(view, edit), owners_(owners), stage_(stage), options_(options), groups_(one_group_per_param(view)) {}

void OwnerPass::run() {
  std::vector<OwnedGroup> all;
  for (const ParamGroup& group : groups_)
    all.push_back(own(group));
  if (stage_ == 3) {
    for (const Unshard& unshard : plan_unshards(view_, groups_, options_))
      gather(all[unshard.group], unshard);
    storage::remove_casts(edit_, groups_);
  }
  for (const OwnedGroup& owned : all) {
    for (const GradientSum& sum : sums_.of(*owned.group))
      if (stage_ == 1)
        sum_everywhere(owned, sum);
      else
        reduce(owned, sum);
    replace_homes(owned);
    // INIT broadcasts all values: each rank has filled its own homes only. Frozen values are sent in INIT only.
    const bool changes = view_.raw.purpose == TSR_PURPOSE_STEP && owned.group->trains();
    if (stage_ < 3 && (changes || view_.raw.purpose == TSR_PURPOSE_INIT)) broadcast_in_place(owned);
  }
}

OwnerPass::OwnedGroup OwnerPass::own(const ParamGroup& group) const {
  OwnedGroup owned{&group, owned_ranges(group, owners_)};
  for (const OwnedRange& range : owned.ranges)
    if (is_mine(range)) owned.num_elements += range.num_elements();
  const storage::FlatParam& param = group.first();
  const auto add = [&](uint32_t kind, tsr_dtype dtype, const std::string& suffix = "") {
    const bool persistent = kind != TSR_BUFFER_GRADIENT;
    return owned.num_elements ? edit_.add_buffer(group.name + suffix, kind, dtype, owned.num_elements, persistent) : 0;
  };
  owned.value = stage_ == 3 ? add(TSR_BUFFER_HOME, param.value->dtype) : param.value->id;
  if (param.gradient && stage_ > 1) owned.gradient = add(TSR_BUFFER_GRADIENT, TSR_F32);
  for (const auto& [number, whole] : param.states) {
    const tsr_buffer& buffer = view_.buffer(whole);
    owned.states[number] = add(buffer.kind, buffer.dtype, storage::state_suffix(view_, number));
  }
  return owned;
}

/// One home per range at its owner, none elsewhere.
void OwnerPass::replace_homes(const OwnedGroup& owned) const {
  for (const OwnedRange& range : owned.ranges) {
    std::vector<uint64_t> ids;
    std::vector<tsr_piece> pieces;
    for (const tsr_home* home : range.homes) {
      ids.push_back(home->id);
      for (tsr_piece piece : std::span(home->pieces, home->num_pieces)) {
        piece.home_offset += offset_of(*home) - range.begin;
        pieces.push_back(piece);
      }
    }
    if (!is_mine(range)) {
      edit_.replace_homes(ids, nullptr);
      continue;
    }
    tsr_home home = *range.homes.front();
    home.pieces = pieces.data();
    home.num_pieces = static_cast<uint32_t>(pieces.size());
    home.num_elements = range.num_elements();
    const auto place = [&](uint32_t number, uint64_t buffer, uint64_t offset) {
      return BufferRange{buffer, offset, range.num_elements()}.role(number);
    };
    const uint64_t summed_everywhere = stage_ == 1 ? owned.group->first().gradient : 0;
    std::vector<tsr_home_role> roles{place(TSR_HOME_VALUE, owned.value, stage_ == 3 ? range.own_begin : range.begin),
                                     summed_everywhere ? place(TSR_HOME_GRADIENT, summed_everywhere, range.begin)
                                                       : place(TSR_HOME_GRADIENT, owned.gradient, range.own_begin)};
    for (const auto& [number, buffer] : owned.states)
      roles.push_back(place(number, buffer, range.own_begin));
    home.roles = roles.data();
    home.num_roles = static_cast<uint32_t>(roles.size());
    edit_.replace_homes(ids, &home);
  }
}

void OwnerPass::gather(const OwnedGroup& owned, const Unshard& unshard) const {
  const ParamGroup& group = *owned.group;
  const storage::FlatParam& param = group.first();
  const Inserter before(edit_, unshard.anchor, TSR_BEFORE);
  const tsr_dtype dtype = param.computed_with().dtype;
  uint64_t own = owned.value;
  if (param.copy && owned.num_elements) {
    own = edit_.add_buffer(group.name, TSR_BUFFER_STAGING, dtype, owned.num_elements);
    before.cast({owned.value, 0, owned.num_elements}, {own, 0, owned.num_elements});
  }
  const uint64_t whole = edit_.add_buffer(group.name, TSR_BUFFER_GATHERED, dtype, group.num_elements);
  for (const OwnedRange& range : owned.ranges) {
    std::vector<tsr_binding> bindings{BufferRange{whole, range.begin, range.num_elements()}.destination()};
    if (is_mine(range)) bindings.push_back(BufferRange{own, range.own_begin, range.num_elements()}.source());
    before.collective(TSR_ACTION_BROADCAST, gather_stream_, axis_group_, bindings, range.owner);
  }
  for (const storage::Use& use : unshard.uses)
    edit_.bind(use.action, {whole, use.offset, use.binding.num_elements, use.binding.slot, use.binding.mode});
}

void OwnerPass::sum_everywhere(const OwnedGroup& owned, const GradientSum& sum) const {
  const uint64_t whole = sum_group_on_every_rank(view_, edit_, reduce_stream_, *owned.group, sum);
  for (const OwnedRange& range : owned.ranges)
    if (is_mine(range)) bind_add(sum, range, {whole, range.begin, range.num_elements()});
}

/// Reduces each range to its owner.
void OwnerPass::reduce(const OwnedGroup& owned, const GradientSum& sum) const {
  const ParamGroup& group = *owned.group;
  const std::string name = group.name + suffix_of(sum);
  const BufferRange whole{sum.buffers.front(), 0, group.num_elements};
  const BufferRange own = sum.adds.empty() ? BufferRange{owned.gradient, 0, owned.num_elements}
                                           : staging(name, TSR_F32, owned.num_elements);
  const Inserter after(edit_, sum.last_writer, TSR_AFTER, sum.micro_batch);
  reduce_in_wire_dtype(after, name, whole, own, [&](const BufferRange& sent, const BufferRange& received) {
    for (const OwnedRange& range : owned.ranges) {
      std::vector<tsr_binding> bindings{BufferRange{sent.buffer, range.begin, range.num_elements()}.source()};
      if (is_mine(range))
        bindings.push_back(BufferRange{received.buffer, range.own_begin, range.num_elements()}.destination());
      after.collective(TSR_ACTION_REDUCE, reduce_stream_, axis_group_, bindings, range.owner);
      if (is_mine(range)) bind_add(sum, range, {own.buffer, range.own_begin, range.num_elements()});
    }
  });
}

/// With one home per range, the first `add` of its homes is left, and adds the whole range.
void OwnerPass::bind_add(const GradientSum& sum, const OwnedRange& range, const BufferRange& source) const {
  for (const tsr_action* add : sum.adds)
    if (std::ranges::find(range.homes, add->home, &tsr_home::id) != range.homes.end())
      return edit_.bind(add->id, source.source());
}

void OwnerPass::broadcast_in_place(const OwnedGroup& owned) const {
  const Inserter end(edit_, 0, TSR_AFTER);
  for (const OwnedRange& range : owned.ranges)
    end.collective(TSR_ACTION_BROADCAST, gather_stream_, axis_group_,
                   std::array{BufferRange{owned.value, range.begin, range.num_elements()}.in_place()}, range.owner);
}

}  // namespace tessera::zero3
