// o0[N,V] = i0[N,C] p0[V,C]^T for this rank's part of the vocabulary, and o1[N], the largest logit of a token here.
// Logits are float32. In 16 bits the products of the backward are made from their gradient rounded to the dtype of i0,
// as those of LOSS are: in float32 they would run without tensor cores.
#include <algorithm>
#include <cub/block/block_reduce.cuh>

#include "cuda-device/context.h"
#include "cuda-device/kernels/launch.h"
#include "cuda-device/kernels/loss/lm_head.h"
#include "cuda-device/kernels/op_table.h"
#include "cuda-device/kernels/values.cuh"
#include "tessera/op_slots.hpp"

namespace tessera::cuda {
namespace {

constexpr int kNumThreads = 256;

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// One block a row. -infinity of none; NaNs are passed over: the sum of exponentials that follows shows them. Maxima are
// exact, so any order will do.
__global__ void __launch_bounds__(kNumThreads)
    find_max(const float* logits, uint64_t columns, uint64_t num_tokens, float* row_max) {
  using Reduce = cub::BlockReduce<float, kNumThreads>;
  __shared__ typename Reduce::TempStorage storage;
  const float* const row = logits + blockIdx.x * columns;
  float largest = -INFINITY;
#pragma unroll 4
  for (uint64_t c = threadIdx.x; c < num_tokens; c += kNumThreads)
    largest = fmaxf(largest, row[c]);
  largest = Reduce(storage).Reduce(largest, Larger{});
  if (threadIdx.x == 0) row_max[blockIdx.x] = largest;
}

// out[row, c] = source[row, c] rounded, and 0 from `columns` to `width`. blockIdx.x is the row.
template <class T>
__global__ void __launch_bounds__(kNumThreads)
    round_rows(const float* source, uint64_t columns, uint64_t width, T* out) {
  const uint64_t row = blockIdx.x, c = uint64_t{blockIdx.y} * kNumThreads + threadIdx.x;
  if (c < width) out[row * width + c] = from_float<T>(c < columns ? source[row * columns + c] : 0.0f);
}

class Forward final : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context& context)
      : shape_(op),
        num_tokens_(static_cast<uint64_t>(op::VocabularyPart(op).count)),
        product_({.m = shape_.rows,
                  .n = shape_.vocabulary,
                  .k = shape_.columns,
                  .a = {shape_.columns},
                  .b = {shape_.columns, true},
                  .out_stride = shape_.vocabulary,
                  .dtype = shape_.dtype,
                  .out_dtype = TSR_F32},
                 context),
        table_(op::find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        input_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        logits_(op::find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        row_max_(op::find_operand(slots, TSR_ROLE_OUTPUT, 1)),
        workspace_(op::find_operand(slots, TSR_ROLE_WORKSPACE, 0)) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    product_.launch(stream, {.a = input_.in<void>(pointers),
                             .b = table_.in<void>(pointers),
                             .out = logits_.in(pointers),
                             .workspace = workspace_.in<void>(pointers)});
    cuda::launch(find_max, static_cast<unsigned>(shape_.rows), kNumThreads, 0, stream, logits_.in(pointers),
                 shape_.vocabulary, num_tokens_, row_max_.in(pointers));
  }

 private:
  const HeadShape shape_;
  const uint64_t num_tokens_;
  const Matmul product_;
  const op::Operand table_, input_, logits_, row_max_, workspace_;
};

class Backward final : public Kernel {
 public:
  Backward(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context& context)
      : shape_(op, context.options().part_bytes),
        table_(op::find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        input_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        logits_gradient_(op::find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        input_gradient_(op::find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        table_gradient_(op::find_operand(slots, TSR_ROLE_GRADIENT, 0)),
        head_(shape_, {false, input_gradient_.is_bound(), table_gradient_.is_bound()}, slots, context) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    Head::Launch launch = head_.begin(stream, pointers, table_.in<void>(pointers));
    for (uint64_t first = 0; first < shape_.rows; first += shape_.chunk)
      launch_chunk(launch, pointers, first);
  }

 private:
  void launch_chunk(Head::Launch& launch, void* const* pointers, uint64_t first) const {
    const uint64_t num_rows = std::min(shape_.chunk, shape_.rows - first);
    const uint64_t offset = TSR_NUM_BYTES(shape_.dtype, first * shape_.columns);
    float* const dlogits = logits_gradient_.in(pointers) + first * shape_.vocabulary;
    if (shape_.stores_logits)
      round(launch, num_rows, dlogits);
    else
      launch.logits = dlogits;
    if (input_gradient_.is_bound())
      head_.input_gradient(launch, num_rows, input_gradient_.accumulates,
                           input_gradient_.in<std::byte>(pointers) + offset);
    if (table_gradient_.is_bound())
      head_.table_gradient(launch, num_rows, input_.in<std::byte>(pointers) + offset,
                           table_gradient_.accumulates || first > 0, table_gradient_.in(pointers));
  }

  void round(const Head::Launch& launch, uint64_t num_rows, const float* dlogits) const {
    const dim3 grid(static_cast<unsigned>(num_rows), blocks_for(shape_.width, kNumThreads));
    with_value_type(shape_.dtype, [&](auto zero) {
      using T = decltype(zero);
      cuda::launch(round_rows<T>, grid, kNumThreads, 0, launch.stream, dlogits, shape_.vocabulary, shape_.width,
                   static_cast<T*>(launch.logits));
    });
  }

  const HeadShape shape_;
  const op::Operand table_, input_, logits_gradient_, input_gradient_, table_gradient_;
  const Head head_;
};

op::SlotList describe(const tsr_op& op) {
  op::SlotList slots = op::segment_slots(op);
  if (op.phase == TSR_PHASE_FORWARD)
    slots.push_back(matmul_workspace(0));
  else
    append_head_workspaces(HeadShape(op), {false, op::has_input_half(op.phase), op::has_weight_half(op.phase)}, slots);
  return slots;
}

}  // namespace

const OpImpl kHeadLogits{describe, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cuda
