// o0[N,C] = p0[V,C][i0[N]]; rows of tokens of other parts of the vocabulary are zero. The backward adds rows, in
// float32, in the order of the tokens: tokens of one row of the table are linked, and the first has a block that adds.
//
//     tokens          5  9  5  7  5         position  0  1  2  3  4
//     next            2  -  4  -  -         has_previous        x     x
//     block of 0      dtable[5] += dy[0] + dy[2] + dy[4], one after another
//
// The usual way is an atomic add for each token, whose order differs from run to run. A sort would do too, and needs
// scratch of its size; finding the next equal token is O(N^2) comparisons at worst, but of tokens that all lie in the
// cache, and frequent tokens find theirs soon.
#include "cuda-device/context.h"
#include "cuda-device/kernels/fault.cuh"
#include "cuda-device/kernels/launch.h"
#include "cuda-device/kernels/op_table.h"
#include "cuda-device/kernels/row_warps.cuh"
#include "tessera/op_slots.hpp"

namespace tessera::cuda {
namespace {

constexpr unsigned kNumThreads = 256;

struct Shape {
  explicit Shape(const tsr_op& op)
      : rows(op::num_rows(op)),
        columns(op::extent(op, TSR_DIM_EMBED)),
        table_rows(op::extent(op, TSR_DIM_VOCAB)),
        part(op) {}

  uint64_t rows, columns, table_rows;
  op::VocabularyPart part;
};

/// The table's row of a token here, or -1.
__device__ inline int64_t table_row(const op::VocabularyPart& part, int token) {
  const int64_t row = int64_t{token} - part.begin;
  return row >= 0 && row < part.count ? row : -1;
}

__device__ inline void check_token(int token, uint64_t position, int64_t total, Fault* fault) {
  if (token < 0 || token >= total) report(fault, kFaultToken, token, static_cast<long long>(position), total);
}

__global__ void __launch_bounds__(kNumThreads)
    check_tokens(const int32_t* tokens, uint64_t num_tokens, int64_t total, Fault* fault) {
  const uint64_t n = uint64_t{blockIdx.x} * kNumThreads + threadIdx.x;
  if (n < num_tokens) check_token(tokens[n], n, total, fault);
}

template <int kNum, class T>
__global__ void __launch_bounds__(kRowWarpThreads)
    gather_rows(const T* __restrict__ table, const int32_t* __restrict__ tokens, op::VocabularyPart part, uint64_t rows,
                uint64_t vectors_of_row, T* __restrict__ out) {
  const uint64_t n = row_of_warp();
  if (n >= rows) return;
  const int64_t row = table_row(part, tokens[n]);
  for_each_vector(vectors_of_row, [&](uint64_t v) {
    float values[kNum] = {};
    if (row >= 0) load<kNum>(table, static_cast<uint64_t>(row) * vectors_of_row + v, values);
    store<kNum>(values, out, n * vectors_of_row + v);
  });
}

class Forward final : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context& context)
      : shape_(op),
        dtype_(op.dtype),
        fault_(context.fault()),
        table_(op::find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        tokens_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        output_(op::find_operand(slots, TSR_ROLE_OUTPUT, 0)) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    const auto* tokens = tokens_.in<const int32_t>(pointers);
    cuda::launch(check_tokens, blocks_for(shape_.rows, kNumThreads), kNumThreads, 0, stream, tokens, shape_.rows,
                 shape_.part.total, fault_);
    with_vectors(
        dtype_, shape_.columns,
        [&]<int kNum, class T>() {
          cuda::launch(gather_rows<kNum, T>, row_warp_grid(shape_.rows), kRowWarpThreads, 0, stream,
                       table_.in<const T>(pointers), tokens, shape_.part, shape_.rows, shape_.columns / kNum,
                       output_.in<T>(pointers));
        },
        table_.in<const void>(pointers), output_.in<const void>(pointers));
  }

 private:
  const Shape shape_;
  const tsr_dtype dtype_;
  Fault* const fault_;
  const op::Operand table_, tokens_, output_;
};

/// The first position from `m` on that holds `token`, or num_tokens. A thread has several loads under way: one load
/// for each comparison would leave it waiting for nearly all of its time.
__device__ inline uint64_t find_token(const int32_t* __restrict__ tokens, uint64_t num_tokens, int token, uint64_t m) {
  constexpr int kBatch = 16;
  for (; m + kBatch <= num_tokens; m += kBatch) {
    unsigned matches = 0;
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      matches |= (tokens[m + k] == token ? 1u : 0u) << k;
    if (matches != 0) return m + static_cast<uint64_t>(__ffs(static_cast<int>(matches)) - 1);
  }
  while (m < num_tokens && tokens[m] != token)
    ++m;
  return m;
}

/// next[n] = the position of the next token of the same row, or num_tokens; and has_previous of that position. Tokens
/// of no row have neither. All look at the same few kilobytes.
__global__ void __launch_bounds__(kNumThreads)
    link_tokens(const int32_t* __restrict__ tokens, uint64_t num_tokens, op::VocabularyPart part, int* next,
                int* has_previous, Fault* fault) {
  const uint64_t n = uint64_t{blockIdx.x} * kNumThreads + threadIdx.x;
  if (n >= num_tokens) return;
  const int token = tokens[n];
  check_token(token, n, part.total, fault);
  const uint64_t m = table_row(part, token) >= 0 ? find_token(tokens, num_tokens, token, n + 1) : num_tokens;
  next[n] = static_cast<int>(m);
  if (m < num_tokens) has_previous[m] = 1;
}

// Block x has the row of the token at position x, if that is its first, and with y kNumThreads columns.
template <class T>
__global__ void __launch_bounds__(kNumThreads)
    sum_tokens(const int32_t* __restrict__ tokens, uint64_t num_tokens, op::VocabularyPart part,
               const int* __restrict__ next, const int* __restrict__ has_previous, const T* __restrict__ dy,
               uint64_t columns, bool accumulates, float* __restrict__ dtable) {
  const uint64_t position = blockIdx.x, column = uint64_t{blockIdx.y} * kNumThreads + threadIdx.x;
  const int64_t row = table_row(part, tokens[position]);
  if (row < 0 || has_previous[position] || column >= columns) return;
  float* const target = dtable + static_cast<uint64_t>(row) * columns + column;
  float sum = accumulates ? *target : 0.0f;
  T value = dy[position * columns + column];
  for (auto n = static_cast<uint64_t>(next[position]); n < num_tokens;) {
    const T later = dy[n * columns + column];  // under way while the next position is
    n = static_cast<uint64_t>(next[n]);
    sum += to_float(value);
    value = later;
  }
  *target = sum + to_float(value);
}

class Backward final : public Kernel {
 public:
  Backward(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context& context)
      : shape_(op),
        dtype_(op.dtype),
        fault_(context.fault()),
        tokens_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        output_gradient_(op::find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        table_gradient_(op::find_operand(slots, TSR_ROLE_GRADIENT, 0)),
        next_(op::find_operand(slots, TSR_ROLE_WORKSPACE, 0)),
        has_previous_(op::find_operand(slots, TSR_ROLE_WORKSPACE, 1)) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    if (!table_gradient_.is_bound()) return;
    const auto* tokens = tokens_.in<const int32_t>(pointers);
    auto* dtable = table_gradient_.in(pointers);
    auto *next = next_.in<int>(pointers), *has_previous = has_previous_.in<int>(pointers);
    if (!table_gradient_.accumulates)
      check(cudaMemsetAsync(dtable, 0, shape_.table_rows * shape_.columns * sizeof(float), stream), "cudaMemsetAsync");
    check(cudaMemsetAsync(has_previous, 0, shape_.rows * sizeof(int), stream), "cudaMemsetAsync");
    cuda::launch(link_tokens, blocks_for(shape_.rows, kNumThreads), kNumThreads, 0, stream, tokens, shape_.rows,
                 shape_.part, next, has_previous, fault_);
    with_value_type(dtype_, [&](auto zero) {
      using T = decltype(zero);
      const dim3 grid(static_cast<unsigned>(shape_.rows), blocks_for(shape_.columns, kNumThreads));
      cuda::launch(sum_tokens<T>, grid, kNumThreads, 0, stream, tokens, shape_.rows, shape_.part, next, has_previous,
                   output_gradient_.in<const T>(pointers), shape_.columns, table_gradient_.accumulates, dtable);
    });
  }

 private:
  const Shape shape_;
  const tsr_dtype dtype_;
  Fault* const fault_;
  const op::Operand tokens_, output_gradient_, table_gradient_, next_, has_previous_;
};

op::SlotList describe(const tsr_op& op) {
  op::SlotList slots = op::segment_slots(op);
  if (op::has_weight_half(op.phase))
    for (const uint32_t index : {0, 1})
      slots.push_back(op::workspace(index, op::num_rows(op), TSR_I32));
  return slots;
}

}  // namespace

const OpImpl kTokenEmbedding{describe, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cuda
