// COPY, CAST, ADD_INTO and SCALE of any number of elements, and ZERO of any number of ranges. All bound by memory. A
// thread has eight elements, so that enough loads are under way at once; aligned casts between float32 and 16 bits,
// which every step does for all parameters, move whole vectors. COPY and ZERO are the runtime's own calls, which a
// graph can hold.
#include <string>
#include <vector>

#include "cuda-device/kernels/launch.h"
#include "cuda-device/kernels/op_table.h"
#include "cuda-device/kernels/row_sums.h"
#include "cuda-device/kernels/vectors.cuh"
#include "tessera/op_slots.hpp"

namespace tessera::cuda {
namespace {

constexpr unsigned kNumThreads = 256;
constexpr int kOfThread = 8;  // elements: of two vectors of float32, or one of 16 bits

bool is_value(tsr_dtype dtype) {
  return dtype == TSR_F32 || dtype == TSR_BF16 || dtype == TSR_F16;
}

uint64_t element_bytes(tsr_dtype dtype) {
  const uint64_t num_bytes = TSR_NUM_BYTES(dtype, 1);
  if (num_bytes == 0) throw Error(TSR_E_UNSUPPORTED, op::dtype_name(dtype) + " has no whole bytes");
  return num_bytes;
}

// The same dtypes as cpu-device takes, in the same words: a program that one device refuses, the other does too.
void check_dtypes(const tsr_op& op) {
  element_bytes(op.dtype);
  const tsr_dtype from = op.dtype, to = op.destination_dtype;
  const auto refuse = [](const std::string& what) { throw Error(TSR_E_UNSUPPORTED, what); };
  const bool casts =
      (from == TSR_F32 && (is_value(to) || to == TSR_F64)) || (to == TSR_F32 && (is_value(from) || from == TSR_F64));
  if (op.kind == TSR_OP_CAST && (from == to || !casts))
    refuse("cast from " + op::dtype_name(from) + " to " + op::dtype_name(to) +
           " is not computed here; one side must be float32, the other bfloat16, float16 or float64");
  if (op.kind == TSR_OP_ADD_INTO && !is_value(from) && from != TSR_F64 && from != TSR_I64)
    refuse("add of " + op::dtype_name(from) +
           " is not computed here; float32, bfloat16, float16, float64 and int64 are");
  if (op.kind == TSR_OP_SCALE && !is_value(from) && from != TSR_F64)
    refuse("scale of " + op::dtype_name(from) + " is not computed here; float32, bfloat16, float16 and float64 are");
}

/// body(T{}) with the type of `dtype`, of those that check_dtypes lets pass.
template <class Body>
void with_type(tsr_dtype dtype, const Body& body) {
  if (dtype == TSR_F64) return body(double{});
  if (dtype == TSR_I64) return body(uint64_t{});  // sums of both signs are the same bits, and may wrap
  with_value_type(dtype, body);
}

// Values are computed in float32, float64 and int64 in themselves.
template <class T>
__device__ inline auto widen(T value) {
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, uint64_t>)
    return value;
  else
    return to_float(value);
}
template <class T, class V>
__device__ inline T narrow(V value) {
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, uint64_t>)
    return static_cast<T>(value);
  else
    return from_float<T>(static_cast<float>(value));
}

/// The elements of one thread, a block's width apart.
template <class F>
__device__ inline void for_each_element(uint64_t num_elements, const F& f) {
  const uint64_t begin = uint64_t{blockIdx.x} * kNumThreads * kOfThread + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kOfThread; ++k)
    if (const uint64_t i = begin + static_cast<unsigned>(k) * kNumThreads; i < num_elements) f(i);
}

template <class To, class From>
__global__ void __launch_bounds__(kNumThreads)
    cast_elements(const From* __restrict__ src, uint64_t num_elements, To* __restrict__ dst) {
  for_each_element(num_elements, [&](uint64_t i) { dst[i] = narrow<To>(widen(src[i])); });
}

template <class T>
__global__ void __launch_bounds__(kNumThreads)
    add_elements(const T* __restrict__ src, uint64_t num_elements, T* __restrict__ dst) {
  for_each_element(num_elements, [&](uint64_t i) { dst[i] = narrow<T>(widen(dst[i]) + widen(src[i])); });
}

template <class T>
__global__ void __launch_bounds__(kNumThreads) scale_elements(double factor, uint64_t num_elements, T* values) {
  for_each_element(num_elements, [&](uint64_t i) {
    const auto value = widen(values[i]);
    values[i] = narrow<T>(value * static_cast<decltype(value)>(factor));
  });
}

/// Eight elements of aligned operands: between float32 and 16 bits, the casts of parameters and gradients.
template <class To, class From>
__global__ void __launch_bounds__(kNumThreads)
    cast_vectors(const From* __restrict__ src, uint64_t num_vectors, To* __restrict__ dst) {
  const uint64_t v = uint64_t{blockIdx.x} * kNumThreads + threadIdx.x;
  if (v >= num_vectors) return;
  constexpr int kWide = kOfThread / kNumLanes<From>, kNarrow = kOfThread / kNumLanes<To>;
  float values[kOfThread];
#pragma unroll
  for (int k = 0; k < kWide; ++k) {
    float lanes[kNumLanes<From>];
    load<kNumLanes<From>>(src, v * kWide + k, lanes);
#pragma unroll
    for (int j = 0; j < kNumLanes<From>; ++j)
      values[k * kNumLanes<From> + j] = lanes[j];
  }
#pragma unroll
  for (int k = 0; k < kNarrow; ++k) {
    float lanes[kNumLanes<To>];
#pragma unroll
    for (int j = 0; j < kNumLanes<To>; ++j)
      lanes[j] = values[k * kNumLanes<To> + j];
    store<kNumLanes<To>>(lanes, dst, v * kNarrow + k);
  }
}

unsigned grid_for(uint64_t num_elements) {
  return blocks_for(num_elements, uint64_t{kNumThreads} * kOfThread);
}

// Vectors where extent and both addresses allow it. Elements are rounded alike in both kernels.
template <class To, class From>
void launch_cast(cudaStream_t stream, uint64_t num_elements, const From* src, To* dst) {
  if constexpr (sizeof(From) <= 4 && sizeof(To) <= 4) {
    if (num_elements % kOfThread == 0 && starts_at_multiple(src, kVectorBytes) && starts_at_multiple(dst, kVectorBytes))
      return launch(cast_vectors<To, From>, grid_for(num_elements), kNumThreads, 0, stream, src,
                    num_elements / kOfThread, dst);
  }
  launch(cast_elements<To, From>, grid_for(num_elements), kNumThreads, 0, stream, src, num_elements, dst);
}

class Elementwise final : public Kernel {
 public:
  Elementwise(const tsr_op& op, std::span<const tsr_slot_spec> slots)
      : kind_(op.kind),
        from_(op.dtype),
        to_(op.kind == TSR_OP_CAST ? op.destination_dtype : op.dtype),
        num_elements_(static_cast<uint64_t>(op.dims[TSR_DIM_ELEMENTS])),
        factor_(op.attributes[TSR_ATTR_SCALE]),
        source_(op::find_operand(slots, TSR_ROLE_SOURCE, 0)),
        destination_(op::find_operand(slots, TSR_ROLE_DESTINATION, 0)) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    const void* src = source_.in<const void>(pointers);
    void* dst = destination_.in<void>(pointers);
    switch (kind_) {
      case TSR_OP_CAST:
        return cast(stream, src, dst);
      case TSR_OP_SCALE:
        return with_type(from_, [&](auto zero) {
          using T = decltype(zero);
          cuda::launch(scale_elements<T>, grid_for(num_elements_), kNumThreads, 0, stream, factor_, num_elements_,
                       static_cast<T*>(dst));
        });
      case TSR_OP_ADD_INTO:
        if (destination_.accumulates) return add(stream, src, dst);
        [[fallthrough]];
      default:
        if (num_elements_ > 0)
          check(cudaMemcpyAsync(dst, src, num_elements_ * element_bytes(from_), cudaMemcpyDeviceToDevice, stream),
                "cudaMemcpyAsync");
    }
  }

 private:
  void cast(cudaStream_t stream, const void* src, void* dst) const {
    const bool narrows = from_ == TSR_F32;
    with_type(narrows ? to_ : from_, [&](auto zero) {
      using Other = decltype(zero);
      if constexpr (!std::is_same_v<Other, uint64_t>) {
        if (narrows)
          launch_cast(stream, num_elements_, static_cast<const float*>(src), static_cast<Other*>(dst));
        else
          launch_cast(stream, num_elements_, static_cast<const Other*>(src), static_cast<float*>(dst));
      }
    });
  }

  void add(cudaStream_t stream, const void* src, void* dst) const {
    if (is_value(from_)) return add_or_copy(stream, {from_, 1, num_elements_}, src, true, dst);
    with_type(from_, [&](auto zero) {
      using T = decltype(zero);
      cuda::launch(add_elements<T>, grid_for(num_elements_), kNumThreads, 0, stream, static_cast<const T*>(src),
                   num_elements_, static_cast<T*>(dst));
    });
  }

  const uint32_t kind_;
  const tsr_dtype from_, to_;
  const uint64_t num_elements_;
  const double factor_;
  const op::Operand source_, destination_;
};

op::SlotList describe(const tsr_op& op) {
  check_dtypes(op);
  return op::elementwise_slots(op);
}

std::unique_ptr<Kernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context&) {
  if (op.kind == TSR_OP_SCALE) op::refuse_write(slots, TSR_SLOT(TSR_ROLE_DESTINATION, 0));
  return std::make_unique<Elementwise>(op, slots);
}

class Zero final : public Kernel {
 public:
  explicit Zero(std::span<const tsr_slot_spec> slots) {
    for (const tsr_slot_spec& slot : slots) {
      if (TSR_SLOT_ROLE(slot.slot) != TSR_ROLE_DESTINATION || slot.mode != TSR_MODE_WRITE)
        throw Error(TSR_E_INVALID_ARGUMENT, "prepare: zero writes destinations only, not slot " +
                                                op::slot_name(slot.slot) + " with mode " + op::mode_name(slot.mode));
      num_bytes_.push_back(slot.num_elements * element_bytes(slot.dtype));
    }
  }

  void launch(cudaStream_t stream, void* const* pointers) override {
    for (size_t i = 0; i < num_bytes_.size(); ++i)
      if (num_bytes_[i] > 0) check(cudaMemsetAsync(pointers[i], 0, num_bytes_[i], stream), "cudaMemsetAsync");
  }

 private:
  std::vector<uint64_t> num_bytes_;  // of each destination
};

std::unique_ptr<Kernel> prepare_zero(const tsr_op&, std::span<const tsr_slot_spec> slots, Context&) {
  return std::make_unique<Zero>(slots);
}

}  // namespace

const OpImpl kElementwise{describe, prepare};
const OpImpl kZero{describe, prepare_zero};

}  // namespace tessera::cuda
