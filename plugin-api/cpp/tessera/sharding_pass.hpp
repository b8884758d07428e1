// What passes that shard the storage of parameters over an axis have in common: the streams of their collectives, the
// gradients to reduce, and the casts around a reduction in another dtype.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/gradient_sum.hpp"

namespace tessera::storage {

/// Base of one pass over one program. Borrows both.
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
