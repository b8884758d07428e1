// CUDA's language for a C++ compiler: what nvcc adds to the toolkit's own header. Kernels are functions that
// cuda_on_cpu.h calls once for each thread.
#pragma once

#pragma GCC system_header

// The runtime's own template erases the types of the arguments, which ours needs.
#define cudaLaunchKernelEx cudaLaunchKernelEx_of_the_toolkit
#include_next <cuda_runtime.h>
#undef cudaLaunchKernelEx

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda_on_cpu.h"

// One block at a time runs on a thread of the operating system, so a block's memory is that thread's.
#undef __shared__
#define __shared__ static thread_local
#undef __launch_bounds__
#define __launch_bounds__(...)

using std::max;
using std::min;

inline void __syncthreads() {
  cuda_on_cpu::meet_block();
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  cuda_on_cpu::meet_warp(mask, {cuda_on_cpu::WarpOperation::sync, 0, false, 0});
}
inline void __threadfence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence_system() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

namespace cuda_on_cpu {

/// `value` of another lane. A source outside the lane's group of `width` lanes is the lane itself.
template <class T>
T shuffle(unsigned mask, T value, int source, int width) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));
  WarpOffer offer{WarpOperation::shuffle, lane(), false, 0};
  const unsigned first = lane() & ~(static_cast<unsigned>(width) - 1);
  if (source >= static_cast<int>(first) && source < static_cast<int>(first) + width)
    offer.source = static_cast<unsigned>(source);
  std::memcpy(&offer.bits, &value, sizeof value);
  const WarpAnswer answer = meet_warp(mask, offer);
  std::memcpy(static_cast<void*>(&value), &answer.bits, sizeof value);
  return value;
}

inline uint32_t vote(unsigned mask, bool yes) {
  return meet_warp(mask, {WarpOperation::vote, 0, yes, 0}).votes;
}

}  // namespace cuda_on_cpu

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int first = static_cast<int>(cuda_on_cpu::lane()) & ~(width - 1);
  return cuda_on_cpu::shuffle(mask, value, first + (source & (width - 1)), width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  return cuda_on_cpu::shuffle(mask, value, static_cast<int>(cuda_on_cpu::lane()) ^ lanes, width);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return cuda_on_cpu::shuffle(mask, value, static_cast<int>(cuda_on_cpu::lane()) - static_cast<int>(delta), width);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return cuda_on_cpu::shuffle(mask, value, static_cast<int>(cuda_on_cpu::lane()) + static_cast<int>(delta), width);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return cuda_on_cpu::vote(mask, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate) {
  return cuda_on_cpu::vote(mask, predicate != 0) != 0;
}
inline int __all_sync(unsigned mask, int predicate) {
  return cuda_on_cpu::vote(mask, predicate == 0) == 0;
}

inline int __ffs(int bits) {
  return __builtin_ffs(bits);
}

// Blocks of several streams run at once.
template <class T>
T atomicAdd(T* to, std::type_identity_t<T> value) {
  return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}
template <class T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  return __atomic_exchange_n(at, value, __ATOMIC_RELAXED);
}
template <class T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> desired) {
  __atomic_compare_exchange_n(at, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}

namespace tessera::cuda {

template <class T>
T* dynamic_shared() {
  return static_cast<T*>(cuda_on_cpu::dynamic_shared_memory());
}

}  // namespace tessera::cuda

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  return cuda_on_cpu::launch(
      {config->gridDim, config->blockDim, config->dynamicSmemBytes}, config->stream,
      reinterpret_cast<const void*>(kernel),
      [kernel, kept = std::tuple<Parameters...>(std::forward<Arguments>(arguments)...)] { std::apply(kernel, kept); });
}

template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
