// SPDX-License-Identifier: Apache-2.0
// What passes that split the storage of parameters have in common: which homes share one buffer, when a whole copy of
// it is needed, and when its gradient is complete. Each strategy decides where the copy comes from and where the sum
// goes.
//
// fsdp over two ranks, of a model of two blocks. In the base program buffer h.0 is whole, f32[13312], and compute
// actions read it. Afterwards each rank has a slice and gathers a copy before its use:
//     %10 = home h.0 persistent f32[6656]
//     %26 = gathered h.0 f32[13312]
//     4     comm.dp.gather      all_gather group=dp  r %10 src  w %26 dst  # 3
//     8     compute             forward h.0.qkv mb=0  r %26+256:3072 p:attn.c_attn.weight  ...
//     52    comm.dp.gradient    reduce_scatter group=dp reduce=sum  r %90 src  w %101 dst  w %102 w:0  # 51
//
// The order of use: flat_params (flat_param.hpp), sorted into ParamGroups by the strategy; plan_unshards (unshard.hpp)
// for where whole copies are made; GradientSums (gradient_sum.hpp) for where gradients are complete. All of it reads
// the view as it was at the start of the pass, and writes through Edit.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/flat_param.hpp"
#include "tessera/gradient_sum.hpp"
#include "tessera/inserter.hpp"
#include "tessera/unshard.hpp"

namespace tessera::storage {

/// What passes that shard over an axis have in common: the streams of their collectives, the gradients to reduce, and
/// the casts around a reduction in another dtype. Base of one pass over one program. Borrows both.
class ShardingPass {
 protected:
  ShardingPass(const ProgramView& view, const Edit& edit)
      : view_(view),
        edit_(edit),
        sums_(view),
        gather_stream_(edit.stream(view.raw.axis, "gather")),
        reduce_stream_(edit.stream(view.raw.axis, "gradient")),
        axis_group_(edit.group(view.raw.axis)) {}

  /// A new staging buffer, or no buffer for no elements.
  BufferRange staging(const std::string& name, tsr_dtype dtype, uint64_t num_elements) const {
    const uint64_t buffer = num_elements ? edit_.add_buffer(name, TSR_BUFFER_STAGING, dtype, num_elements) : 0;
    return {buffer, 0, num_elements};
  }

  /// Calls reduce(sent, received), which inserts the collectives that reduce `whole` into `own`. If the job reduces
  /// gradients in 16 bits, it gets 16-bit buffers, with a cast before and after: the sum is rounded once to that dtype.
  template <class Reduce>
  void reduce_in_wire_dtype(const Inserter& after, const std::string& name, const BufferRange& whole,
                            const BufferRange& own, const Reduce& reduce) const {
    const tsr_dtype dtype = view_.raw.reduce_dtype;
    if (dtype == TSR_F32) return reduce(whole, own);
    const BufferRange sent = staging(name, dtype, whole.num_elements);
    const BufferRange received = staging(name, dtype, own.num_elements);
    after.cast(whole, sent);
    reduce(sent, received);
    if (own.num_elements) after.cast(received, own);
  }

  const ProgramView& view_;
  const Edit& edit_;
  const GradientSums sums_;
  const uint32_t gather_stream_, reduce_stream_;
  const int32_t axis_group_;
};

}  // namespace tessera::storage
