// cuDNN only overwrites, so a gradient that is bound with ADD is made in scratch, part by part, and added here. None of
// our strategies binds it that way, so a separate kernel is fast enough.
#include "cuda-device/kernels/attention/attention_gradient.h"

#include "cuda-device/kernels/launch.h"
#include "cuda-device/kernels/values.cuh"

namespace tessera::cuda {
namespace {

constexpr unsigned kThreads = 256;

// Rows of `columns` elements, one after another in `source`, `stride` apart in `target`.
template <class T>
__global__ void add_rows_kernel(const T* source, T* target, int64_t num_elements, int64_t columns, int64_t stride) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index < num_elements)
    write_or_add(target + index / columns * stride + index % columns, to_float(source[index]), true);
}

}  // namespace

void add_attention_gradient(cudaStream_t stream, const AttentionShape& shape, const AttentionPart& part,
                            int64_t first_sequence, int64_t first_head, tsr_dtype dtype, const void* part_gradient,
                            void* gradient) {
  const int64_t columns = part.heads * shape.head_dim, num_elements = part.batch * shape.sequence * 3 * columns;
  const int64_t first = first_sequence * shape.sequence * 3 * shape.width() + first_head * shape.head_dim;
  with_value_type(dtype, [&](auto value) {
    using T = decltype(value);
    launch(add_rows_kernel<T>, dim3(blocks_for(static_cast<uint64_t>(num_elements), kThreads)), dim3(kThreads), 0,
           stream, static_cast<const T*>(part_gradient), static_cast<T*>(gradient) + first, num_elements, columns,
           shape.width());
  });
}

}  // namespace tessera::cuda
