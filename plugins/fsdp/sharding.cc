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
// The pass frees nothing: a second gather is a second buffer, and a buffer lives until its last use. Parameters are
// kept between forward and backward (shard_grad_op) if the compute actions of both read the same buffer. The position
// of a gather in the list is the prefetch: h.0 is gathered while the forward of wpe runs (line 5).
//
// optimizer_only (ZeRO-1) keeps values whole, and ends with gathers in place: all_gather group=dp  a %14 dst.

#include "sharding.h"

#include <array>
#include <string>

#include "tessera/ranges.hpp"

namespace tessera::fsdp {
namespace {

using storage::BufferRange;
using storage::GradientSum;
using storage::Inserter;
using storage::ParamGroup;
using storage::Unshard;

}  // namespace

Sharder::Sharder(const ProgramView& view, const Edit& edit, std::span<const ParamGroup> groups)
    : ShardingPass(view, edit), groups_(groups) {}

uint64_t slice_elements(uint64_t num_elements, int num_ranks) {
  // Whole cache lines in every dtype, for at most 32 elements of padding per rank.
  return round_up(divide_up(num_elements, static_cast<uint64_t>(num_ranks)), kSliceAlignment);
}

uint64_t Sharder::add(const ParamGroup& group, uint32_t kind, tsr_dtype dtype, uint64_t num_elements,
                      const std::string& suffix) const {
  const bool persistent = kind == TSR_BUFFER_HOME || kind == TSR_BUFFER_OPTIMIZER;
  return edit_.add_buffer(group.name + suffix, kind, dtype, num_elements, persistent);
}

void Sharder::shard_all(const storage::UnshardOptions& options) {
  std::vector<Shard> shards;
  for (const ParamGroup& group : groups_)
    shards.push_back(make_shard(group, false));
  for (const Unshard& unshard : plan_unshards(view_, groups_, options))
    gather(shards[unshard.group], unshard);
  storage::remove_casts(edit_, groups_);
  for (const Shard& shard : shards) {
    for (const GradientSum& sum : sums_.of(*shard.group))
      reduce(shard, sum);
    replace_homes(shard);
  }
}

void Sharder::shard_optimizer() {
  for (const ParamGroup& group : groups_) {
    if (!group.trains()) continue;  // frozen values stay whole, and have no state
    const Shard shard = make_shard(group, true);
    for (size_t i = 0; i < group.params.size(); ++i)
      edit_.rebind(group.params[i].value->id, shard.whole, group.base[i]);
    for (const GradientSum& sum : sums_.of(group))
      reduce(shard, sum);
    replace_homes(shard);
    if (view_.raw.purpose != TSR_PURPOSE_EVAL) gather_in_place(shard);
  }
}

Sharder::Shard Sharder::make_shard(const ParamGroup& group, bool whole_values) const {
  const tsr_axis& axis = view_.axis();
  Shard shard{&group, slice_elements(group.num_elements, axis.num_ranks), {}, {}};
  const tsr_dtype dtype = group.first().value->dtype;
  if (whole_values) {
    // The slice is given by its offset, so the program depends on the coordinate (Fsdp::depends_on_coordinate).
    shard.whole = add(group, TSR_BUFFER_HOME, dtype, shard.slice * static_cast<uint64_t>(axis.num_ranks));
    shard.value = {shard.whole, static_cast<uint64_t>(axis.coordinate) * shard.slice, shard.slice};
  } else {
    shard.value = {add(group, TSR_BUFFER_HOME, dtype, shard.slice), 0, shard.slice};
  }
  if (group.first().gradient) shard.gradient = {add(group, TSR_BUFFER_GRADIENT, TSR_F32, shard.slice), 0, shard.slice};
  return shard;
}

/// The pieces of parameters in this rank's slice.
std::vector<tsr_piece> Sharder::pieces(const Shard& shard) const {
  std::vector<tsr_piece> pieces;
  const uint64_t begin = static_cast<uint64_t>(view_.axis().coordinate) * shard.slice;
  const ElementRange own{begin, begin + shard.slice};
  for (size_t i = 0; i < shard.group->params.size(); ++i)
    for (const tsr_home* home : shard.group->params[i].homes)
      for (const tsr_piece& piece : std::span(home->pieces, home->num_pieces)) {
        const uint64_t start = shard.group->base[i] + role_of(*home, TSR_HOME_VALUE).offset + piece.home_offset;
        const ElementRange part = own.intersection({start, start + piece.num_elements});
        if (!part.is_empty())
          pieces.push_back({piece.parameter, 0, piece.parameter_offset + (part.begin - start), part.num_elements(),
                            part.begin - begin});
      }
  return pieces;
}

void Sharder::replace_homes(const Shard& shard) const {
  const ParamGroup& group = *shard.group;
  const std::vector<tsr_piece> own = pieces(shard);
  tsr_home home{};
  home.name = str(group.name);
  home.unit = group.first().homes.front()->unit;
  home.pieces = own.data();
  home.num_pieces = static_cast<uint32_t>(own.size());
  home.num_elements = shard.slice;
  std::vector<tsr_home_role> roles{shard.value.role(TSR_HOME_VALUE), shard.gradient.role(TSR_HOME_GRADIENT)};
  for (const auto& [number, whole] : group.first().states) {
    const tsr_buffer& buffer = view_.buffer(whole);
    const uint64_t slice = add(group, buffer.kind, buffer.dtype, shard.slice, storage::state_suffix(view_, number));
    roles.push_back(BufferRange{slice, 0, shard.slice}.role(number));
  }
  home.roles = roles.data();
  home.num_roles = static_cast<uint32_t>(roles.size());
  edit_.replace_homes(group.home_ids(), &home);
}

/// Gathers the slices of all ranks, after a cast to the dtype of compute.
void Sharder::gather(const Shard& shard, const Unshard& unshard) const {
  const ParamGroup& group = *shard.group;
  const Inserter before(edit_, unshard.anchor, TSR_BEFORE);
  const tsr_dtype dtype = group.first().computed_with().dtype;
  BufferRange own = shard.value;
  if (group.first().copy) {
    own = {add(group, TSR_BUFFER_STAGING, dtype, shard.slice), 0, shard.slice};
    before.cast(shard.value, own);
  }
  const uint64_t num_elements = shard.slice * static_cast<uint64_t>(view_.axis().num_ranks);
  const BufferRange whole{add(group, TSR_BUFFER_GATHERED, dtype, num_elements), 0, num_elements};
  before.collective(TSR_ACTION_ALL_GATHER, gather_stream_, axis_group_, std::array{own.source(), whole.destination()});
  for (const storage::Use& use : unshard.uses)
    edit_.bind(use.action, {whole.buffer, use.offset, use.binding.num_elements, use.binding.slot, use.binding.mode});
}

void Sharder::gather_in_place(const Shard& shard) const {
  const BufferRange whole{shard.whole, 0, shard.slice * static_cast<uint64_t>(view_.axis().num_ranks)};
  const Inserter end(edit_, 0, TSR_AFTER);
  end.collective(TSR_ACTION_ALL_GATHER, gather_stream_, axis_group_, std::array{whole.in_place()});
}

/// Rebinds the gradients of a group into one buffer and reduces each slice to its owner.
void Sharder::reduce(const Shard& shard, const GradientSum& sum) const {
  const ParamGroup& group = *shard.group;
  const std::string suffix = suffix_of(sum);
  const uint64_t num_elements = shard.slice * static_cast<uint64_t>(view_.axis().num_ranks);
  const auto buffer = [&](uint32_t kind, tsr_dtype dtype, uint64_t n) {
    return BufferRange{add(group, kind, dtype, n, suffix), 0, n};
  };
  const BufferRange whole = buffer(TSR_BUFFER_GRADIENT, TSR_F32, num_elements);
  for (size_t i = 0; i < group.params.size(); ++i)
    edit_.rebind(sum.buffers[i], whole.buffer, group.base[i]);
  BufferRange own = shard.gradient;
  if (!sum.adds.empty()) {  // their homes become one, so one `add`, the first, is left
    own = buffer(TSR_BUFFER_STAGING, TSR_F32, shard.slice);
    edit_.bind(sum.adds.front()->id, own.source());
  }
  const Inserter after(edit_, sum.last_writer, TSR_AFTER, sum.micro_batch);
  reduce_in_wire_dtype(after, group.name + suffix, whole, own,
                       [&](const BufferRange& sent, const BufferRange& received) {
                         after.collective(TSR_ACTION_REDUCE_SCATTER, reduce_stream_, axis_group_,
                                          std::array{sent.source(), received.destination()});
                       });
}

// Like ddp, but with the groups of --fsdp.wrap: for comparisons, and to turn sharding off with one option.
void replicate(const ProgramView& view, const Edit& edit, std::span<const ParamGroup> groups) {
  const uint32_t stream = edit.stream(view.raw.axis, "gradient");
  if (view.raw.purpose == TSR_PURPOSE_INIT) return storage::broadcast_values(view, edit, stream);
  const storage::GradientSums sums(view);
  for (const ParamGroup& group : groups)
    for (const GradientSum& sum : sums.of(group))
      storage::sum_group_on_every_rank(view, edit, stream, group, sum);
}

}  // namespace tessera::fsdp
