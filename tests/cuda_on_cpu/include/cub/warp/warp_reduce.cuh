// cub::WarpReduce, in CUB's order.
#pragma once

#include <cuda_runtime.h>

#include <cstring>

namespace cub {

/// Only lane 0 is given the result, as CUB promises it to no other.
template <class T>
class WarpReduce {
 public:
  struct TempStorage {};

  explicit WarpReduce(TempStorage&) {}

  template <class Operation>
  T Reduce(T value, Operation operation) {
    for (unsigned distance = 1; distance < 32; distance *= 2) {
      const T other = from_above(value, distance);
      if (cuda_on_cpu::lane() + distance < 32) value = operation(value, other);
    }
    return cuda_on_cpu::lane() == 0 ? value : garbage();
  }
  T Sum(T value) {
    return Reduce(value, [](const T& a, const T& b) { return a + b; });
  }

  /// Where CUB leaves a part of the result: NaN in floating types.
  static T garbage() {
    T value;
    std::memset(static_cast<void*>(&value), 0xFF, sizeof value);
    return value;
  }

 private:
  static T from_above(T value, unsigned distance) {
    constexpr size_t kNumWords = (sizeof(T) + 3) / 4;
    unsigned words[kNumWords] = {};
    std::memcpy(words, &value, sizeof value);
    for (unsigned& word : words)
      word = __shfl_down_sync(0xffffffffu, word, distance);
    std::memcpy(static_cast<void*>(&value), words, sizeof value);
    return value;
  }
};

}  // namespace cub
