// Backward, from the statistics: one kernel has a tile of keys and goes over the queries that see them, for the
// gradients of k and v; the other has a tile of queries and goes over their keys, for that of q. Both compute the
// probabilities again, so that every gradient is a sum in one thread.
//
//     delta = rowsum(dO O)                                one warp a row
//     P = exp(scale S - log_sum),  dS = scale P (dP - delta),  dP = dO v^T
//     keys' kernel:     dv += P^T dO,  dk += dS^T q       over the query tiles at and after the diagonal
//     queries' kernel:  dq += dS k                        over the key tiles up to the diagonal
//
// FlashAttention-2 (Dao 2023) has one kernel of 5 products, whose blocks add to dq by atomics, in any order. Two
// kernels cost 7 products, and the same bits come out in every run. Memory: delta alone, [B,H,T].
#include "cuda-device/kernels/attention/attention_plain.cuh"
#include "cuda-device/kernels/warp.cuh"

namespace tessera::cuda {
namespace {

// In shared memory: four tiles of rows, scores, and the statistics of a tile's queries.
template <class Tile>
constexpr size_t kSharedBytes = sizeof(float) * (4 * Tile::kElements + Tile::kScoreElements + 2 * Tile::kSize);

template <class T>
struct Operands {
  const T *qkv, *output, *output_gradient;
  const float* log_sum;
  float* delta;  // [B,H,T]: of each query, the product of output and its gradient
  T* gradient;   // of q|k|v
  bool adds;
};

// A warp for each row of a head.
template <class T>
__global__ void delta_kernel(AttentionHeads heads, int64_t num_statistics, Operands<T> operands) {
  const int lane = threadIdx.x % kWarpSize;
  const int64_t index = (int64_t{blockIdx.x} * kAttentionThreads + threadIdx.x) / kWarpSize;
  if (index >= num_statistics) return;
  const int64_t row = index % heads.num_rows, head = index / heads.num_rows;
  const AttentionPlace place{head / heads.num_heads, head % heads.num_heads, 0};
  const HeadRows<const T> output = heads.output(operands.output, place);
  const HeadRows<const T> gradient = heads.output(operands.output_gradient, place);
  float sum = 0.0f;
  for (int d = lane; d < heads.head_dim; d += kWarpSize)
    sum =
        fmaf(to_float(output.first[row * output.stride + d]), to_float(gradient.first[row * gradient.stride + d]), sum);
  for (int other = kWarpSize / 2; other > 0; other /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, other);
  if (lane == 0) operands.delta[index] = sum;
}

// The shared memory of a block.
template <class Tile>
struct Shared {
  __device__ Shared()
      : queries(dynamic_shared<float>()),
        keys(queries + Tile::kElements),
        values(keys + Tile::kElements),
        output_gradients(values + Tile::kElements),
        scores(output_gradients + Tile::kElements),
        log_sum(scores + Tile::kScoreElements),
        delta(log_sum + Tile::kSize) {}

  template <class T>
  __device__ void load_queries(const AttentionHeads& heads, const Operands<T>& operands, const AttentionPlace& place,
                               int first) {
    load_tile<Tile>(heads.packed(operands.qkv, place, 0), first, queries);
    load_tile<Tile>(heads.output(operands.output_gradient, place), first, output_gradients);
    const int query = static_cast<int>(threadIdx.x);
    if (query >= Tile::kSize) return;
    const bool is_inside = first + query < heads.num_rows;
    const int64_t at = heads.statistics(place) + first + query;
    log_sum[query] = is_inside ? operands.log_sum[at] : 0.0f;
    delta[query] = is_inside ? operands.delta[at] : 0.0f;
  }
  template <class T>
  __device__ void load_keys(const AttentionHeads& heads, const Operands<T>& operands, const AttentionPlace& place,
                            int first) {
    load_tile<Tile>(heads.packed(operands.qkv, place, 1), first, keys);
    load_tile<Tile>(heads.packed(operands.qkv, place, 2), first, values);
  }

  float *queries, *keys, *values, *output_gradients, *scores, *log_sum, *delta;
};

// Turns a score into its probability, and the gradient of the probability into that of the score. For a key that comes
// after its query both are 0, whatever they were.
__device__ inline void apply_softmax(bool is_seen, float scale, float log_sum, float delta, float& weight,
                                     float& gradient) {
  weight = is_seen ? expf(fmaf(weight, scale, -log_sum)) : 0.0f;
  gradient = is_seen ? weight * (gradient - delta) * scale : 0.0f;
}

// Rows are keys, columns queries.
template <class Tile, class T>
__global__ void __launch_bounds__(kAttentionThreads, 2)
    key_value_kernel(AttentionHeads heads, int64_t num_tiles, Operands<T> operands) {
  Shared<Tile> shared;
  const AttentionPlace place = attention_place(num_tiles, heads.num_heads);
  const int first_row = static_cast<int>(place.tile) * Tile::kSize;
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;

  shared.load_keys(heads, operands, place, first_row);
  typename Tile::Sums key_sums = {}, value_sums = {};
  for (int first_column = first_row; first_column < heads.num_rows; first_column += Tile::kSize) {
    __syncthreads();  // the last queries were read
    shared.load_queries(heads, operands, place, first_column);
    __syncthreads();
    typename Tile::Scores weights, gradients;
    multiply_rows<Tile>(shared.keys, shared.queries, heads.head_dim, weights);
    multiply_rows<Tile>(shared.values, shared.output_gradients, heads.head_dim, gradients);
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i)
#pragma unroll
      for (int j = 0; j < Tile::kRows; ++j) {
        const int query = x + 16 * j;
        const bool is_seen = first_row + y * Tile::kRows + i <= first_column + query;
        apply_softmax(is_seen && first_column + query < heads.num_rows, heads.scale, shared.log_sum[query],
                      shared.delta[query], weights[i][j], gradients[i][j]);
      }
    share_scores<Tile>(weights, shared.scores);
    add_weighted_rows<Tile>(shared.scores, shared.output_gradients, value_sums);
    share_scores<Tile>(gradients, shared.scores);
    add_weighted_rows<Tile>(shared.scores, shared.queries, key_sums);
  }
  store_tile<Tile>(key_sums, heads.packed(operands.gradient, place, 1), first_row, operands.adds);
  store_tile<Tile>(value_sums, heads.packed(operands.gradient, place, 2), first_row, operands.adds);
}

// Rows are queries, columns keys.
template <class Tile, class T>
__global__ void __launch_bounds__(kAttentionThreads)
    query_kernel(AttentionHeads heads, int64_t num_tiles, Operands<T> operands) {
  Shared<Tile> shared;
  AttentionPlace place = attention_place(num_tiles, heads.num_heads);
  place.tile = num_tiles - 1 - place.tile;  // those that see most keys first
  const int first_row = static_cast<int>(place.tile) * Tile::kSize;
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;

  shared.load_queries(heads, operands, place, first_row);
  typename Tile::Sums sums = {};
  for (int first_column = 0; first_column <= first_row; first_column += Tile::kSize) {
    __syncthreads();  // the last keys were read
    shared.load_keys(heads, operands, place, first_column);
    __syncthreads();
    typename Tile::Scores weights, gradients;
    multiply_rows<Tile>(shared.queries, shared.keys, heads.head_dim, weights);
    multiply_rows<Tile>(shared.output_gradients, shared.values, heads.head_dim, gradients);
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
      const int query = y * Tile::kRows + i;
#pragma unroll
      for (int j = 0; j < Tile::kRows; ++j) {
        const bool is_seen = first_column + x + 16 * j <= first_row + query;
        apply_softmax(is_seen, heads.scale, shared.log_sum[query], shared.delta[query], weights[i][j], gradients[i][j]);
      }
    }
    share_scores<Tile>(gradients, shared.scores);
    add_weighted_rows<Tile>(shared.scores, shared.keys, sums);
  }
  store_tile<Tile>(sums, heads.packed(operands.gradient, place, 0), first_row, operands.adds);
}

template <class Tile, class T>
class Backward : public Kernel {
 public:
  Backward(const AttentionShape& shape, std::span<const tsr_slot_spec> slots)
      : shape_(shape),
        qkv_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        output_(op::find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        log_sum_(op::find_operand(slots, TSR_ROLE_SAVED, 0)),
        output_gradient_(op::find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        gradient_(op::find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        scratch_(op::find_operand(slots, TSR_ROLE_WORKSPACE, 0)) {
    allow_shared_memory(key_value_kernel<Tile, T>, kSharedBytes<Tile>);
    allow_shared_memory(query_kernel<Tile, T>, kSharedBytes<Tile>);
  }

  void launch(cudaStream_t stream, void* const* pointers) override {
    const Operands<T> operands{qkv_.in<const T>(pointers),
                               output_.in<const T>(pointers),
                               output_gradient_.in<const T>(pointers),
                               log_sum_.in<const float>(pointers),
                               scratch_.in(pointers),
                               gradient_.in<T>(pointers),
                               gradient_.accumulates};
    const AttentionHeads heads(shape_);
    const int64_t num_rows = shape_.num_statistics();
    const int64_t num_tiles = blocks_for(static_cast<uint64_t>(shape_.sequence), Tile::kSize);
    const dim3 grid(attention_grid<Tile>(shape_)), block(kAttentionThreads);
    cuda::launch(delta_kernel<T>, dim3(blocks_for(static_cast<uint64_t>(num_rows) * kWarpSize, kAttentionThreads)),
                 block, 0, stream, heads, num_rows, operands);
    cuda::launch(key_value_kernel<Tile, T>, grid, block, kSharedBytes<Tile>, stream, heads, num_tiles, operands);
    cuda::launch(query_kernel<Tile, T>, grid, block, kSharedBytes<Tile>, stream, heads, num_tiles, operands);
  }

 private:
  const AttentionShape shape_;
  const op::Operand qkv_, output_, log_sum_, output_gradient_, gradient_, scratch_;
};

template <class T>
std::unique_ptr<Kernel> choose_tile(const AttentionShape& shape, std::span<const tsr_slot_spec> slots) {
  // Within the 99 KiB of shared memory that every GPU since sm_80 allows a block.
  if (shape.head_dim <= 64) return std::make_unique<Backward<AttentionTile<64, 64>, T>>(shape, slots);
  if (shape.head_dim <= 128) return std::make_unique<Backward<AttentionTile<32, 128>, T>>(shape, slots);
  return std::make_unique<Backward<AttentionTile<16, 256>, T>>(shape, slots);
}

}  // namespace

std::unique_ptr<Kernel> plain_attention_backward(const tsr_op& op, std::span<const tsr_slot_spec> slots) {
  const AttentionShape shape(op);
  return with_value_type(op.dtype, [&](auto value) { return choose_tile<decltype(value)>(shape, slots); });
}

}  // namespace tessera::cuda
