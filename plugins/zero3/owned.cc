// The rewriting of zero3. A unit is a row of runs, neighbouring tensors of one owner. Stage 3 over 2 ranks, rank 0's
// program (tests/golden/programs/two-blocks-zero3-stage-3.txt), where %11 is what rank 0 owns of h.0:
//
//     %20 = gathered h.0 f32[13312]
//     4     comm.dp.gather    broadcast group=dp root=1  w %20+0:4864 dst  # 3
//     5     comm.dp.gather    broadcast group=dp root=0  w %20+4864:4096 dst  r %11 src
//     6     comm.dp.gather    broadcast group=dp root=1  w %20+8960:4352 dst
//
// and stage 2, where the sum of a run goes to its owner and the new values come back at the end of the step:
//
//     53    comm.dp.gradient  reduce group=dp root=1 reduce=sum  r %79+0:4864 src  w %90 w:0  # 52
//     54    comm.dp.gradient  reduce group=dp root=0 reduce=sum  r %79+4864:4096 src  w %91 dst  w %92 w:0
//     75    comm.dp.gather    broadcast group=dp root=1  a %3+0:4864 dst
//     76    comm.dp.gather    broadcast group=dp root=0  a %3+4864:4096 dst  # 69
// All ranks list the same collectives in the same order; the owner alone binds the source of a broadcast and the
// destination of a reduce. There is one collective for each run, not for each tensor: a run ends where the owner
// changes.

#include "owned.h"

#include <algorithm>
#include <array>

namespace tessera::zero3 {
namespace {

using storage::Gathering;
using storage::GradientSum;
using storage::Group;
using storage::Inserter;
using storage::Range;

std::vector<Group> one_group_a_flat(const ProgramView& view) {
  std::vector<Group> groups;
  for (const storage::Flat& flat : storage::flats_of(view))
    groups.emplace_back().add(flat);
  return groups;
}

uint64_t offset_of(const tsr_home& home) {
  return home.roles[TSR_HOME_VALUE].offset;
}

}  // namespace

std::vector<Run> runs_of(const Group& group, std::span<const int> owners) {
  std::vector<Run> runs;
  for (const tsr_home* home : group.first().homes) {
    if (home->num_pieces == 0) continue;
    const int owner = owners[static_cast<size_t>(home->pieces[0].parameter)];
    if (runs.empty() || runs.back().owner != owner) {
      // A run ends where the next begins, so the pads between them are sent as well and every element has an owner.
      if (!runs.empty()) runs.back().end = offset_of(*home);
      runs.push_back({owner, offset_of(*home), group.num_elements, 0, {}});
    }
    runs.back().homes.push_back(home);
  }
  std::vector<uint64_t> owned(owners.empty() ? 0 : static_cast<size_t>(*std::ranges::max_element(owners)) + 1);
  for (Run& run : runs) {
    run.own_begin = owned[static_cast<size_t>(run.owner)];
    owned[static_cast<size_t>(run.owner)] += run.num_elements();
  }
  return runs;
}

OwnerPass::OwnerPass(const ProgramView& view, const Edit& edit, std::span<const int> owners, int stage,
                     const storage::GatherOptions& gather)
    : view_(view),
      edit_(edit),
      owners_(owners),
      stage_(stage),
      options_(gather),
      groups_(one_group_a_flat(view)),
      sums_(view),
      gather_stream_(edit.stream(view.raw.axis, "gather")),
      reduce_stream_(edit.stream(view.raw.axis, "gradient")),
      axis_group_(edit.group(view.raw.axis)) {}

void OwnerPass::run() {
  std::vector<Owned> all;
  for (const Group& group : groups_)
    all.push_back(own(group));
  if (stage_ == 3) {
    for (const Gathering& gathering : plan_gatherings(view_, groups_, options_))
      gather(all[gathering.group], gathering);
    storage::remove_casts(edit_, groups_);
  }
  for (const Owned& owned : all) {
    for (const GradientSum& sum : sums_.of(*owned.group))
      if (stage_ == 1)
        sum_everywhere(owned, sum);
      else
        reduce(owned, sum);
    replace_homes(owned);
    // INIT broadcasts all: until then each rank has filled its own homes only. Frozen values are sent in INIT alone.
    const bool changes = view_.raw.purpose == TSR_PURPOSE_STEP && owned.group->trains();
    if (stage_ < 3 && (changes || view_.raw.purpose == TSR_PURPOSE_INIT)) broadcast_in_place(owned);
  }
}

OwnerPass::Owned OwnerPass::own(const Group& group) const {
  Owned owned{&group, runs_of(group, owners_)};
  for (const Run& run : owned.runs)
    if (is_mine(run)) owned.num_elements += run.num_elements();
  const storage::Flat& flat = group.first();
  const auto add = [&](uint32_t kind, tsr_dtype dtype, const char* suffix = "") {
    const bool persistent = kind != TSR_BUFFER_GRADIENT;
    return owned.num_elements ? edit_.add_buffer(group.name + suffix, kind, dtype, owned.num_elements, persistent) : 0;
  };
  owned.value = stage_ == 3 ? add(TSR_BUFFER_HOME, flat.value->dtype) : flat.value->id;
  if (flat.gradient && stage_ > 1) owned.gradient = add(TSR_BUFFER_GRADIENT, TSR_F32);
  if (flat.m) owned.m = add(TSR_BUFFER_OPTIMIZER, TSR_F32, " m");
  if (flat.v) owned.v = add(TSR_BUFFER_OPTIMIZER, TSR_F32, " v");
  return owned;
}

/// One home a run at its owner, none elsewhere.
void OwnerPass::replace_homes(const Owned& owned) const {
  for (const Run& run : owned.runs) {
    std::vector<uint64_t> ids;
    std::vector<tsr_piece> pieces;
    for (const tsr_home* home : run.homes) {
      ids.push_back(home->id);
      for (tsr_piece piece : std::span(home->pieces, home->num_pieces)) {
        piece.home_offset += offset_of(*home) - run.begin;
        pieces.push_back(piece);
      }
    }
    if (!is_mine(run)) {
      edit_.replace_homes(ids, nullptr);
      continue;
    }
    tsr_home home = *run.homes.front();
    home.pieces = pieces.data();
    home.num_pieces = static_cast<uint32_t>(pieces.size());
    home.num_elements = run.num_elements();
    const auto place = [&](uint64_t buffer, uint64_t offset) {
      return Range{buffer, offset, run.num_elements()}.role();
    };
    home.roles[TSR_HOME_VALUE] = place(owned.value, stage_ == 3 ? run.own_begin : run.begin);
    const uint64_t summed_everywhere = stage_ == 1 ? owned.group->first().gradient : 0;
    home.roles[TSR_HOME_GRADIENT] =
        summed_everywhere ? place(summed_everywhere, run.begin) : place(owned.gradient, run.own_begin);
    home.roles[TSR_HOME_M] = place(owned.m, run.own_begin);
    home.roles[TSR_HOME_V] = place(owned.v, run.own_begin);
    edit_.replace_homes(ids, &home);
  }
}

void OwnerPass::gather(const Owned& owned, const Gathering& gathering) const {
  const Group& group = *owned.group;
  const storage::Flat& flat = group.first();
  const Inserter before(edit_, gathering.anchor, TSR_BEFORE);
  const tsr_dtype dtype = flat.computed_with().dtype;
  uint64_t own = owned.value;
  if (flat.copy && owned.num_elements) {
    own = edit_.add_buffer(group.name, TSR_BUFFER_STAGING, dtype, owned.num_elements);
    before.cast({owned.value, 0, owned.num_elements}, {own, 0, owned.num_elements});
  }
  const uint64_t whole = edit_.add_buffer(group.name, TSR_BUFFER_GATHERED, dtype, group.num_elements);
  for (const Run& run : owned.runs) {
    std::vector<tsr_binding> bindings{Range{whole, run.begin, run.num_elements()}.destination()};
    if (is_mine(run)) bindings.push_back(Range{own, run.own_begin, run.num_elements()}.source());
    before.collective(TSR_ACTION_BROADCAST, gather_stream_, axis_group_, bindings, run.owner);
  }
  for (const storage::Use& use : gathering.uses)
    edit_.bind(use.action, {whole, use.offset, use.binding.num_elements, use.binding.slot, use.binding.mode});
}

void OwnerPass::sum_everywhere(const Owned& owned, const GradientSum& sum) const {
  const uint64_t whole = sum_group_on_every_rank(view_, edit_, reduce_stream_, *owned.group, sum);
  for (const Run& run : owned.runs)
    if (is_mine(run)) bind_add(sum, run, {whole, run.begin, run.num_elements()});
}

/// Each run summed at its owner, in the dtype that is sent: the sum is rounded once to it.
void OwnerPass::reduce(const Owned& owned, const GradientSum& sum) const {
  const Group& group = *owned.group;
  const std::string name = group.name + suffix_of(sum);
  const auto staging = [&](tsr_dtype dtype, uint64_t n) {
    return n ? edit_.add_buffer(name, TSR_BUFFER_STAGING, dtype, n) : 0;
  };
  const Range whole{sum.buffers.front(), 0, group.num_elements};
  const Range own{sum.adds.empty() ? owned.gradient : staging(TSR_F32, owned.num_elements), 0, owned.num_elements};
  const tsr_dtype dtype = view_.raw.reduce_dtype;
  const bool casts = dtype != TSR_F32;
  const uint64_t sent = casts ? staging(dtype, group.num_elements) : whole.buffer;
  const uint64_t received = casts ? staging(dtype, owned.num_elements) : own.buffer;
  const Inserter after(edit_, sum.last_writer, TSR_AFTER, sum.micro_batch);
  if (casts) after.cast(whole, {sent, 0, group.num_elements});
  for (const Run& run : owned.runs) {
    std::vector<tsr_binding> bindings{Range{sent, run.begin, run.num_elements()}.source()};
    if (is_mine(run)) bindings.push_back(Range{received, run.own_begin, run.num_elements()}.destination());
    after.collective(TSR_ACTION_REDUCE, reduce_stream_, axis_group_, bindings, run.owner);
    if (is_mine(run)) bind_add(sum, run, {own.buffer, run.own_begin, run.num_elements()});
  }
  if (casts && owned.num_elements) after.cast({received, 0, owned.num_elements}, own);
}

/// With one home a run, one `add` is left of those of its homes: the first. It adds the whole run.
void OwnerPass::bind_add(const GradientSum& sum, const Run& run, const Range& source) const {
  for (const tsr_action* add : sum.adds)
    if (std::ranges::find(run.homes, add->home, &tsr_home::id) != run.homes.end())
      return edit_.bind(add->id, source.source());
}

void OwnerPass::broadcast_in_place(const Owned& owned) const {
  const Inserter end(edit_, 0, TSR_AFTER);
  for (const Run& run : owned.runs)
    end.collective(TSR_ACTION_BROADCAST, gather_stream_, axis_group_,
                   std::array{Range{owned.value, run.begin, run.num_elements()}.in_place()}, run.owner);
}

}  // namespace tessera::zero3
