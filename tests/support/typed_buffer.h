// Memory of n elements of any dtype, with guard bytes on both sides.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/core.h"

namespace tessera::testing {

/// Writes `value`, rounded to nearest even, as an element of `dtype`; reads one.
void put_element(tsr_dtype dtype, std::byte* at, double value);
double get_element(tsr_dtype dtype, const std::byte* at);

class TypedBuffer {
 public:
  /// Every byte 0xa5.
  TypedBuffer(tsr_dtype dtype, uint64_t num_elements);
  TypedBuffer(tsr_dtype dtype, uint64_t num_elements, const std::function<double(uint64_t)>& value_of);

  tsr_dtype dtype() const { return dtype_; }
  uint64_t num_elements() const { return num_elements_; }
  std::byte* data() { return at(0); }
  std::byte* at(uint64_t element) { return bytes_.data() + kGuardBytes + element * TSR_DTYPE_BYTES(dtype_); }
  const std::byte* at(uint64_t element) const { return const_cast<TypedBuffer*>(this)->at(element); }
  void fill(const std::function<double(uint64_t)>& value_of);

  /// "" when both have the same bits and the guards are whole, else a sentence with the first difference.
  std::string difference(const TypedBuffer& expected) const;

 private:
  static constexpr uint64_t kGuardBytes = 64;

  tsr_dtype dtype_;
  uint64_t num_elements_;
  std::vector<std::byte> bytes_;
};

}  // namespace tessera::testing
