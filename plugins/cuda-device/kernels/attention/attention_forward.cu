// Forward: a block has a tile of queries and goes over the keys they see, tile by tile, with a running maximum and sum
// (FlashAttention, Dao et al. 2022; the online softmax is Milakov and Gimelshein's, 2018). When a tile raises the
// maximum from m to m', what was summed before is multiplied by e^(m - m'):
//     sum = sum e^(m - m') + rowsum(e^(S - m')),   O = O e^(m - m') + e^(S - m') v
// Nothing of [T,T] reaches memory. Tiles beyond the diagonal are never visited; blocks with the longest way start
// first, so that the last ones to finish are short.
#include "cuda-device/kernels/attention/attention_plain.cuh"

namespace tessera::cuda {
namespace {

// In shared memory: queries, keys and then values in one place, scores.
template <class Tile>
constexpr size_t kSharedBytes = sizeof(float) * (2 * Tile::kElements + Tile::kScoreElements);

// scores = their exponentials relative to the new maximum, 0 where a key comes after its query; sums and the results so
// far follow.
template <class Tile>
__device__ void update_softmax(typename Tile::Scores& scores, float scale, int first_row, int first_column,
                               float (&max)[Tile::kRows], float (&sum)[Tile::kRows], typename Tile::Sums& results) {
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
    const int row = first_row + y * Tile::kRows + i;
    float largest = max[i];
#pragma unroll
    for (int j = 0; j < Tile::kRows; ++j) {
      const bool is_seen = first_column + x + 16 * j <= row;
      scores[i][j] = is_seen ? scores[i][j] * scale : -INFINITY;
      largest = fmaxf(largest, scores[i][j]);
    }
    largest = row_max(largest);
    float added = 0.0f;
#pragma unroll
    for (int j = 0; j < Tile::kRows; ++j) {
      scores[i][j] = expf(scores[i][j] - largest);
      added += scores[i][j];
    }
    const float shrink = expf(max[i] - largest);  // 0 at first
    sum[i] = fmaf(sum[i], shrink, row_sum(added));
    max[i] = largest;
#pragma unroll
    for (int j = 0; j < 4 * Tile::kQuads; ++j)
      results[i][j] *= shrink;
  }
}

template <class Tile, class T>
__global__ void __launch_bounds__(kAttentionThreads)
    forward_kernel(AttentionHeads heads, int64_t num_tiles, const T* qkv, T* output, float* log_sum) {
  float* queries = dynamic_shared<float>();
  float* keys = queries + Tile::kElements;
  float* shared_scores = keys + Tile::kElements;
  AttentionPlace place = attention_place(num_tiles, heads.num_heads);
  place.tile = num_tiles - 1 - place.tile;  // those that see most keys first
  const int first_row = static_cast<int>(place.tile) * Tile::kSize;

  load_tile<Tile>(heads.packed(qkv, place, 0), first_row, queries);
  float max[Tile::kRows], sum[Tile::kRows] = {};
  typename Tile::Sums results = {};
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i)
    max[i] = -INFINITY;
  for (int first_column = 0; first_column <= first_row; first_column += Tile::kSize) {
    __syncthreads();  // the last values were read
    load_tile<Tile>(heads.packed(qkv, place, 1), first_column, keys);
    __syncthreads();
    typename Tile::Scores scores;
    multiply_rows<Tile>(queries, keys, heads.head_dim, scores);
    update_softmax<Tile>(scores, heads.scale, first_row, first_column, max, sum, results);
    if (!output) continue;
    share_scores<Tile>(scores, shared_scores);
    __syncthreads();  // the keys were read
    load_tile<Tile>(heads.packed(qkv, place, 2), first_column, keys);
    __syncthreads();
    add_weighted_rows<Tile>(shared_scores, keys, results);
  }

  const int y = threadIdx.x / 16;
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
    const int row = first_row + y * Tile::kRows + i;
    if (log_sum && threadIdx.x % 16 == 0 && row < heads.num_rows)
      log_sum[heads.statistics(place) + row] = max[i] + logf(sum[i]);
    const float share = 1.0f / sum[i];
#pragma unroll
    for (int j = 0; j < 4 * Tile::kQuads; ++j)
      results[i][j] *= share;
  }
  if (output) store_tile<Tile>(results, heads.output(output, place), first_row, false);
}

template <class Tile, class T>
class Forward : public Kernel {
 public:
  Forward(const AttentionShape& shape, std::span<const tsr_slot_spec> slots)
      : shape_(shape),
        qkv_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        output_(op::find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        log_sum_(op::find_operand(slots, TSR_ROLE_SAVED, 0)) {
    allow_shared_memory(forward_kernel<Tile, T>, kSharedBytes<Tile>);
  }

  void launch(cudaStream_t stream, void* const* pointers) override {
    cuda::launch(forward_kernel<Tile, T>, dim3(attention_grid<Tile>(shape_)), dim3(kAttentionThreads),
                 kSharedBytes<Tile>, stream, AttentionHeads(shape_),
                 int64_t{blocks_for(static_cast<uint64_t>(shape_.sequence), Tile::kSize)}, qkv_.in<const T>(pointers),
                 output_.in<T>(pointers), log_sum_.in(pointers));
  }

 private:
  const AttentionShape shape_;
  const op::Operand qkv_, output_, log_sum_;
};

template <class T>
std::unique_ptr<Kernel> choose_tile(const AttentionShape& shape, std::span<const tsr_slot_spec> slots) {
  // Within the 99 KiB of shared memory that every GPU since sm_80 allows a block.
  if (shape.head_dim <= 64) return std::make_unique<Forward<AttentionTile<64, 64>, T>>(shape, slots);
  if (shape.head_dim <= 128) return std::make_unique<Forward<AttentionTile<64, 128>, T>>(shape, slots);
  return std::make_unique<Forward<AttentionTile<32, 256>, T>>(shape, slots);
}

}  // namespace

std::unique_ptr<Kernel> plain_attention_forward(const tsr_op& op, std::span<const tsr_slot_spec> slots) {
  const AttentionShape shape(op);
  return with_value_type(op.dtype, [&](auto value) { return choose_tile<decltype(value)>(shape, slots); });
}

}  // namespace tessera::cuda
