// IDX files, as MNIST is published, for tests.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace tessera::testing {

template <class T>
std::string big_endian(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  static_assert(std::endian::native == std::endian::little);
  return {bytes.rbegin(), bytes.rend()};
}

/// The header alone: 0, 0, the type, the number of dims, the dims.
inline std::string idx_header(uint8_t type, const std::vector<uint32_t>& dims) {
  std::string bytes = {'\0', '\0', static_cast<char>(type), static_cast<char>(dims.size())};
  for (const uint32_t extent : dims)
    bytes += big_endian(extent);
  return bytes;
}

/// A whole file of elements of T, whose code is `type`.
template <class T>
std::string idx_bytes(uint8_t type, const std::vector<uint32_t>& dims, const std::vector<T>& elements) {
  std::string bytes = idx_header(type, dims);
  if constexpr (sizeof(T) == 1) return bytes.append(elements.begin(), elements.end());
  for (const T element : elements)
    bytes += big_endian(element);
  return bytes;
}

}  // namespace tessera::testing
