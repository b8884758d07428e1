// The rewriting of fsdp. With full_shard over 2 ranks (tests/golden/programs/two-blocks-fsdp-full-shard.txt), where %10
// is this rank's half of block h.0:
//
//     %26 = gathered h.0 f32[13312]
//     4     comm.dp.gather      all_gather group=dp  r %10 src  w %26 dst  # 3
//     7     compute             forward h.0.ln_1 mb=0  r %26+0:32 p:ln_1.weight  ...
//     ...
//     %76 = gathered h.0 f32[13312]
//     33    comm.dp.gather      all_gather group=dp  r %10 src  w %76 dst  # 29      again, for the backward
//     44    compute             backward h.0.fc_proj mb=0  r %76+9088:4096 p:mlp.c_proj.weight  ...
//     52    comm.dp.gradient    reduce_scatter group=dp reduce=sum  r %90 src  w %101 dst  w %102 w:0  # 51
//     66    compute             optimizer home=h.0 predicated  a %10 dst  r %101 src  a %17 st:m  a %18 st:v  ...
//
// Nothing is ever freed: a second gather is a second buffer, and lifetimes end where the last use is. Whether
// parameters are kept between forward and backward (shard_grad_op) is only a question of which compute actions read
// which buffer. The place of a gather in the list is the prefetch: h.0 is gathered while the forward of wpe runs (line
// 5).
//
// optimizer_only (ZeRO-1) keeps values whole, and ends with gathers in place: all_gather group=dp  a %14 dst.

#include "sharding.h"

#include <algorithm>
#include <array>
#include <string>

#include "fsdp.h"

namespace tessera::fsdp {
namespace {

using storage::Gathering;
using storage::GradientSum;
using storage::Group;
using storage::Inserter;
using storage::Range;

}  // namespace

Sharder::Sharder(const ProgramView& view, const Edit& edit, std::span<const Group> groups)
    : view_(view),
      edit_(edit),
      groups_(groups),
      sums_(view),
      gather_stream_(edit.stream(view.raw.axis, "gather")),
      reduce_stream_(edit.stream(view.raw.axis, "gradient")),
      axis_group_(edit.group(view.raw.axis)) {}

uint64_t Sharder::add(const Group& group, uint32_t kind, tsr_dtype dtype, uint64_t num_elements,
                      const std::string& suffix) const {
  const bool persistent = kind == TSR_BUFFER_HOME || kind == TSR_BUFFER_OPTIMIZER;
  return edit_.add_buffer(group.name + suffix, kind, dtype, num_elements, persistent);
}

void Sharder::shard_all(const storage::GatherOptions& options) {
  std::vector<Shard> shards;
  for (const Group& group : groups_)
    shards.push_back(make_shard(group, false));
  for (const Gathering& gathering : plan_gatherings(view_, groups_, options))
    gather(shards[gathering.group], gathering);
  storage::remove_casts(edit_, groups_);
  for (const Shard& shard : shards) {
    for (const GradientSum& sum : sums_.of(*shard.group))
      reduce(shard, sum);
    replace_homes(shard);
  }
}

void Sharder::shard_optimizer() {
  for (const Group& group : groups_) {
    if (!group.trains()) continue;  // frozen values stay whole, and have no state
    const Shard shard = make_shard(group, true);
    for (size_t i = 0; i < group.flats.size(); ++i)
      edit_.rebind(group.flats[i].value->id, shard.whole, group.base[i]);
    for (const GradientSum& sum : sums_.of(group))
      reduce(shard, sum);
    replace_homes(shard);
    if (view_.raw.purpose != TSR_PURPOSE_EVAL) gather_in_place(shard);
  }
}

Sharder::Shard Sharder::make_shard(const Group& group, bool whole_values) const {
  const tsr_axis& axis = view_.axis();
  Shard shard{&group, slice_elements(group.num_elements, axis.num_ranks), {}, {}};
  const tsr_dtype dtype = group.first().value->dtype;
  if (whole_values) {
    // The slice is named by offset, so the program differs by coordinate (Fsdp::depends_on_coordinate).
    shard.whole = add(group, TSR_BUFFER_HOME, dtype, shard.slice * static_cast<uint64_t>(axis.num_ranks));
    shard.value = {shard.whole, static_cast<uint64_t>(axis.coordinate) * shard.slice, shard.slice};
  } else {
    shard.value = {add(group, TSR_BUFFER_HOME, dtype, shard.slice), 0, shard.slice};
  }
  if (group.first().gradient) shard.gradient = {add(group, TSR_BUFFER_GRADIENT, TSR_F32, shard.slice), 0, shard.slice};
  return shard;
}

/// The parts of this rank's slice that hold elements of parameters.
std::vector<tsr_piece> Sharder::pieces(const Shard& shard) const {
  std::vector<tsr_piece> pieces;
  const uint64_t begin = static_cast<uint64_t>(view_.axis().coordinate) * shard.slice, end = begin + shard.slice;
  for (size_t i = 0; i < shard.group->flats.size(); ++i)
    for (const tsr_home* home : shard.group->flats[i].homes)
      for (const tsr_piece& piece : std::span(home->pieces, home->num_pieces)) {
        const uint64_t start = shard.group->base[i] + home->roles[TSR_HOME_VALUE].offset + piece.home_offset;
        const uint64_t from = std::max(begin, start), to = std::min(end, start + piece.num_elements);
        if (from < to)
          pieces.push_back({piece.parameter, 0, piece.parameter_offset + (from - start), to - from, from - begin});
      }
  return pieces;
}

void Sharder::replace_homes(const Shard& shard) const {
  const Group& group = *shard.group;
  const std::vector<tsr_piece> own = pieces(shard);
  tsr_home home{};
  home.name = str(group.name);
  home.unit = group.first().homes.front()->unit;
  home.pieces = own.data();
  home.num_pieces = static_cast<uint32_t>(own.size());
  home.num_elements = shard.slice;
  home.roles[TSR_HOME_VALUE] = shard.value.role();
  home.roles[TSR_HOME_GRADIENT] = shard.gradient.role();
  const auto state = [&](uint64_t is_there, const char* suffix) {
    const uint64_t buffer = is_there ? add(group, TSR_BUFFER_OPTIMIZER, TSR_F32, shard.slice, suffix) : 0;
    return Range{buffer, 0, shard.slice}.role();
  };
  home.roles[TSR_HOME_M] = state(group.first().m, " m");
  home.roles[TSR_HOME_V] = state(group.first().v, " v");
  edit_.replace_homes(group.home_ids(), &home);
}

/// The slice, cast first to what is computed in, of every rank.
void Sharder::gather(const Shard& shard, const Gathering& gathering) const {
  const Group& group = *shard.group;
  const Inserter before(edit_, gathering.anchor, TSR_BEFORE);
  const tsr_dtype dtype = group.first().computed_with().dtype;
  Range own = shard.value;
  if (group.first().copy) {
    own = {add(group, TSR_BUFFER_STAGING, dtype, shard.slice), 0, shard.slice};
    before.cast(shard.value, own);
  }
  const uint64_t num_elements = shard.slice * static_cast<uint64_t>(view_.axis().num_ranks);
  const Range whole{add(group, TSR_BUFFER_GATHERED, dtype, num_elements), 0, num_elements};
  before.collective(TSR_ACTION_ALL_GATHER, gather_stream_, axis_group_, std::array{own.source(), whole.destination()});
  for (const storage::Use& use : gathering.uses)
    edit_.bind(use.action, {whole.buffer, use.offset, use.binding.num_elements, use.binding.slot, use.binding.mode});
}

void Sharder::gather_in_place(const Shard& shard) const {
  const Range whole{shard.whole, 0, shard.slice * static_cast<uint64_t>(view_.axis().num_ranks)};
  const Inserter end(edit_, 0, TSR_AFTER);
  end.collective(TSR_ACTION_ALL_GATHER, gather_stream_, axis_group_, std::array{whole.in_place()});
}

/// The gradients of a group in one buffer of slices, each summed on its owner, in the dtype that is sent: the sum is
/// rounded once to it.
void Sharder::reduce(const Shard& shard, const GradientSum& sum) const {
  const Group& group = *shard.group;
  const std::string suffix = suffix_of(sum);
  const uint64_t num_elements = shard.slice * static_cast<uint64_t>(view_.axis().num_ranks);
  const auto buffer = [&](uint32_t kind, tsr_dtype dtype, uint64_t n) {
    return Range{add(group, kind, dtype, n, suffix), 0, n};
  };
  const Range whole = buffer(TSR_BUFFER_GRADIENT, TSR_F32, num_elements);
  for (size_t i = 0; i < group.flats.size(); ++i)
    edit_.rebind(sum.buffers[i], whole.buffer, group.base[i]);
  Range own = shard.gradient;
  if (!sum.adds.empty()) {  // the first is what is left of them when their homes are one
    own = buffer(TSR_BUFFER_STAGING, TSR_F32, shard.slice);
    edit_.bind(sum.adds.front()->id, own.source());
  }
  const tsr_dtype dtype = view_.raw.reduce_dtype;
  const bool casts = dtype != TSR_F32;
  const Range sent = casts ? buffer(TSR_BUFFER_STAGING, dtype, num_elements) : whole;
  const Range received = casts ? buffer(TSR_BUFFER_STAGING, dtype, shard.slice) : own;
  const Inserter after(edit_, sum.last_writer, TSR_AFTER, sum.micro_batch);
  if (casts) after.cast(whole, sent);
  after.collective(TSR_ACTION_REDUCE_SCATTER, reduce_stream_, axis_group_,
                   std::array{sent.source(), received.destination()});
  if (casts) after.cast(received, own);
}

// As ddp does, but in the groups that --fsdp.wrap makes and in fsdp's flat buffers: for comparisons, and to turn
// sharding off with one option.
void replicate(const ProgramView& view, const Edit& edit, std::span<const Group> groups) {
  const uint32_t stream = edit.stream(view.raw.axis, "gradient");
  if (view.raw.purpose == TSR_PURPOSE_INIT) return storage::broadcast_values(view, edit, stream);
  const storage::GradientSums sums(view);
  for (const Group& group : groups)
    for (const GradientSum& sum : sums.of(group))
      storage::sum_group_on_every_rank(view, edit, stream, group, sum);
}

}  // namespace tessera::fsdp
