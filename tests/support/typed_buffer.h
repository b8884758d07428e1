// Memory of n elements of any dtype, with guard bytes on both sides.
#pragma once

#include <functional>
#include <memory_resource>
#include <string>

#include "tessera/core.h"

namespace tessera::testing {

/// Writes `value`, rounded to nearest even, as an element of `dtype`; reads one.
void put_element(tsr_dtype dtype, std::byte* at, double value);
double get_element(tsr_dtype dtype, const std::byte* at);

/// While it lives, buffers that this thread makes are in memory of `resource`; otherwise, in any.
class BufferMemory {
 public:
  explicit BufferMemory(std::pmr::memory_resource* resource);
  ~BufferMemory();
  BufferMemory(const BufferMemory&) = delete;
  BufferMemory& operator=(const BufferMemory&) = delete;

 private:
  std::pmr::memory_resource* const before_;
};

class TypedBuffer {
 public:
  /// Every byte 0xa5.
  TypedBuffer(tsr_dtype dtype, uint64_t num_elements);
  TypedBuffer(tsr_dtype dtype, uint64_t num_elements, const std::function<double(uint64_t)>& value_of);
  TypedBuffer(const TypedBuffer& other);
  TypedBuffer(TypedBuffer&&) noexcept = default;
  TypedBuffer& operator=(const TypedBuffer&) = default;

  tsr_dtype dtype() const { return dtype_; }
  uint64_t num_elements() const { return num_elements_; }
  std::byte* data() { return at(0); }
  std::byte* at(uint64_t element) { return bytes_.data() + kGuardBytes + TSR_NUM_BYTES(dtype_, element); }
  const std::byte* at(uint64_t element) const { return const_cast<TypedBuffer*>(this)->at(element); }
  void fill(const std::function<double(uint64_t)>& value_of);

  /// "" when both have the same bits and the guards are whole, else a sentence with the first difference. Elements of
  /// floating types may differ by `tolerance` of the expected one.
  std::string difference(const TypedBuffer& expected, double tolerance = 0) const;

 private:
  static constexpr uint64_t kGuardBytes = 64;

  tsr_dtype dtype_;
  uint64_t num_elements_;
  std::pmr::vector<std::byte> bytes_;
};

}  // namespace tessera::testing
