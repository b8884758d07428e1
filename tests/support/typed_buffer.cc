#include "support/typed_buffer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/half.hpp"

namespace tessera::testing {
namespace {

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}
template <class T>
T get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

constexpr std::byte kGuard{0xa5};

thread_local std::pmr::memory_resource* current_memory = std::pmr::new_delete_resource();

}  // namespace

void put_element(tsr_dtype dtype, std::byte* at, double value) {
  switch (dtype) {
    case TSR_I8:
      return put(at, static_cast<int8_t>(value));
    case TSR_I32:
      return put(at, static_cast<int32_t>(value));
    case TSR_I64:
      return put(at, static_cast<int64_t>(value));
    case TSR_U8:
      return put(at, static_cast<uint8_t>(value));
    case TSR_U16:
      return put(at, static_cast<uint16_t>(value));
    case TSR_U32:
      return put(at, static_cast<uint32_t>(value));
    case TSR_F16:
      return put(at, float_to_f16(static_cast<float>(value)));
    case TSR_BF16:
      return put(at, float_to_bf16(static_cast<float>(value)));
    case TSR_F32:
      return put(at, static_cast<float>(value));
    case TSR_F64:
      return put(at, value);
    default:
      throw Error(TSR_E_UNSUPPORTED, "no such dtype");
  }
}

double get_element(tsr_dtype dtype, const std::byte* at) {
  switch (dtype) {
    case TSR_I8:
      return get<int8_t>(at);
    case TSR_I32:
      return get<int32_t>(at);
    case TSR_I64:
      return static_cast<double>(get<int64_t>(at));
    case TSR_U8:
      return get<uint8_t>(at);
    case TSR_U16:
      return get<uint16_t>(at);
    case TSR_U32:
      return get<uint32_t>(at);
    case TSR_F16:
      return static_cast<double>(f16_to_float(get<uint16_t>(at)));
    case TSR_BF16:
      return static_cast<double>(bf16_to_float(get<uint16_t>(at)));
    case TSR_F32:
      return static_cast<double>(get<float>(at));
    case TSR_F64:
      return get<double>(at);
    default:
      throw Error(TSR_E_UNSUPPORTED, "no such dtype");
  }
}

BufferMemory::BufferMemory(std::pmr::memory_resource* resource) : before_(std::exchange(current_memory, resource)) {}
BufferMemory::~BufferMemory() {
  current_memory = before_;
}

TypedBuffer::TypedBuffer(tsr_dtype dtype, uint64_t num_elements)
    : dtype_(dtype),
      num_elements_(num_elements),
      bytes_(2 * kGuardBytes + TSR_NUM_BYTES(dtype, num_elements), kGuard, current_memory) {}

TypedBuffer::TypedBuffer(const TypedBuffer& other)
    : dtype_(other.dtype_), num_elements_(other.num_elements_), bytes_(other.bytes_, current_memory) {}

TypedBuffer::TypedBuffer(tsr_dtype dtype, uint64_t num_elements, const std::function<double(uint64_t)>& value_of)
    : TypedBuffer(dtype, num_elements) {
  fill(value_of);
}

void TypedBuffer::fill(const std::function<double(uint64_t)>& value_of) {
  for (uint64_t i = 0; i < num_elements_; ++i)
    put_element(dtype_, at(i), value_of(i));
}

std::string TypedBuffer::difference(const TypedBuffer& expected, double tolerance) const {
  if (dtype_ != expected.dtype_ || num_elements_ != expected.num_elements_) return "another dtype or length";
  const auto is_guard = [](std::byte byte) { return byte == kGuard; };
  if (!std::all_of(bytes_.begin(), bytes_.begin() + kGuardBytes, is_guard)) return "written before the first element";
  if (!std::all_of(bytes_.end() - kGuardBytes, bytes_.end(), is_guard)) return "written after the last element";
  for (uint64_t i = 0; i < num_elements_; ++i) {
    if (std::memcmp(at(i), expected.at(i), TSR_NUM_BYTES(dtype_, 1)) == 0) continue;
    const double actual = get_element(dtype_, at(i)), wanted = get_element(dtype_, expected.at(i));
    if (std::abs(actual - wanted) <= tolerance * std::abs(wanted) && tolerance > 0) continue;
    return "element " + std::to_string(i) + " of " + std::to_string(num_elements_) + " is " + std::to_string(actual) +
           ", expected " + std::to_string(wanted);
  }
  return "";
}

}  // namespace tessera::testing
