// GELU (tanh form) and ReLU where cuBLASLt has not fused them, and their gradients with the parts of the bias gradient.
// The derivative and the sum over rows come from the same registers: dz is not read again for the bias
// (docs/decisions/0017 counts the passes and says why DGELU is not fused). Formulas as in cpu-device's activation.cc.
#include "cuda-device/kernels/linear/activation.h"

#include "cuda-device/kernels/column_parts.cuh"
#include "cuda-device/kernels/launch.h"
#include "cuda-device/kernels/values.cuh"

namespace tessera::cuda {
namespace {

constexpr unsigned kNumThreads = 256;

constexpr float kTwiceSqrt2OverPi = 1.59576912f;
constexpr float kCubic = 0.044715f;

// (1 + tanh(u)) / 2 = 1 / (1 + e^(-2u)), which keeps its relative precision where tanh(u) is near -1.
struct Gate {
  float e;      // e^(-2u)
  float value;  // 1 / (1 + e)
};

__device__ inline Gate gate(float z) {
  constexpr float kFactor = -kTwiceSqrt2OverPi * kLog2E;
  const float exponent = kFactor * z * fmaf(kCubic * z, z, 1.0f);
  const float e = exp2f(fminf(exponent, 86.0f));  // beyond, the gate is 0 at float32's precision of any activation
  return {e, 1.0f / (1.0f + e)};
}

template <Activation kActivation>
__device__ inline float value_of(float z) {
  if constexpr (kActivation == Activation::kGelu) return z * gate(z).value;
  return z < 0.0f ? 0.0f : z;
}

/// dy activation'(z).
template <Activation kActivation>
__device__ inline float gradient_of(float z, float dy) {
  if constexpr (kActivation == Activation::kGelu) {
    const Gate g = gate(z);
    const float slope = kTwiceSqrt2OverPi * fmaf(3.0f * kCubic * z, z, 1.0f);  // of 2u
    return dy * fmaf(z, (g.e * g.value) * g.value * slope, g.value);
  }
  return z > 0.0f ? dy : 0.0f;
}

template <int kNum, class T>
__global__ void __launch_bounds__(kNumThreads)
    fill(const T* bias, uint64_t vectors_of_row, uint64_t num_vectors, T* out) {
  const uint64_t i = uint64_t{blockIdx.x} * kNumThreads + threadIdx.x;
  if (i >= num_vectors) return;
  float values[kNum];
  load<kNum>(bias, i % vectors_of_row, values);
  store<kNum>(values, out, i);
}

template <Activation kActivation, int kNum, class T>
__global__ void __launch_bounds__(kNumThreads) apply(const T* z, uint64_t num_vectors, T* y) {
  const uint64_t i = uint64_t{blockIdx.x} * kNumThreads + threadIdx.x;
  if (i >= num_vectors) return;
  float values[kNum];
  load<kNum>(z, i, values);
#pragma unroll
  for (float& value : values)
    value = value_of<kActivation>(value);
  store<kNum>(values, y, i);
}

// dz = dy activation'(z), and the parts of the sum of dz over rows: a block has 128 rows by 32 vectors, its 8 warps
// take every eighth row, and write_part adds the warps in order. Sums are of dz before it is rounded to 16 bits.
template <Activation kActivation, int kNum, class T>
__global__ void __launch_bounds__(kPartThreads)
    differentiate(const T* __restrict__ z, const T* __restrict__ dy, uint64_t rows, uint64_t vectors_of_row,
                  T* __restrict__ dz, float* __restrict__ parts) {
  const PartThread thread = part_thread(rows);
  float sums[kNum] = {};
  if (thread.vector < vectors_of_row) {
#pragma unroll 4
    for (uint64_t row = thread.first; row < thread.end; row += kRowsAtOnce) {
      const uint64_t i = row * vectors_of_row + thread.vector;
      float values[kNum];
      load<kNum>(dy, i, values);
      if constexpr (kActivation != Activation::kNone) {
        float arguments[kNum];
        load<kNum>(z, i, arguments);
#pragma unroll
        for (int j = 0; j < kNum; ++j)
          values[j] = gradient_of<kActivation>(arguments[j], values[j]);
        store<kNum>(values, dz, i);
      }
#pragma unroll
      for (int j = 0; j < kNum; ++j)
        sums[j] += values[j];
    }
  }
  if (parts) write_part<kNum>(thread, sums, vectors_of_row, parts);
}

/// body.operator()<kActivation>().
template <class Body>
void with_activation(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::kNone:
      return body.template operator()<Activation::kNone>();
    case Activation::kGelu:
      return body.template operator()<Activation::kGelu>();
    case Activation::kRelu:
      return body.template operator()<Activation::kRelu>();
  }
}

}  // namespace

void fill_rows(cudaStream_t stream, const ValueMatrix& shape, const void* bias, void* out) {
  with_vectors(
      shape.dtype, shape.columns,
      [&]<int kNum, class T>() {
        const uint64_t num_vectors = shape.rows * shape.columns / kNum;
        launch(fill<kNum, T>, blocks_for(num_vectors, kNumThreads), kNumThreads, 0, stream, static_cast<const T*>(bias),
               shape.columns / kNum, num_vectors, static_cast<T*>(out));
      },
      bias, out);
}

void activate(cudaStream_t stream, Activation activation, const ValueMatrix& shape, const void* z, void* y) {
  with_vectors(
      shape.dtype, shape.rows * shape.columns,
      [&]<int kNum, class T>() {
        const uint64_t num_vectors = shape.rows * shape.columns / kNum;
        const auto kernel =
            activation == Activation::kGelu ? apply<Activation::kGelu, kNum, T> : apply<Activation::kRelu, kNum, T>;
        launch(kernel, blocks_for(num_vectors, kNumThreads), kNumThreads, 0, stream, static_cast<const T*>(z),
               num_vectors, static_cast<T*>(y));
      },
      z, y);
}

void differentiate_activation(cudaStream_t stream, Activation activation, const ValueMatrix& shape, const void* z,
                              const void* dy, void* dz, float* parts) {
  with_vectors(
      shape.dtype, shape.columns,
      [&]<int kNum, class T>() {
        with_activation(activation, [&]<Activation kActivation>() {
          const uint64_t vectors_of_row = shape.columns / kNum;
          launch(differentiate<kActivation, kNum, T>, part_grid(shape.rows, vectors_of_row), kPartThreads, 0, stream,
                 static_cast<const T*>(z), static_cast<const T*>(dy), shape.rows, vectors_of_row, static_cast<T*>(dz),
                 parts);
        });
      },
      z, dy, dz);
}

}  // namespace tessera::cuda
