// Element types of weight files, and their exact conversion to float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tessera::host {

/// Bytes of one element of a safetensors dtype ("F32", "BF16", "I64", "BOOL", ...); 0 if the name is unknown.
uint64_t element_bytes(std::string_view dtype);

/// Whether to_float takes this dtype: F16, BF16, F32, F64.
bool converts_to_float(std::string_view dtype);

/// out[i] = element i of `elements`, which holds out.size() little-endian elements of `dtype`, in any alignment. F64 is
/// rounded to nearest; the others are exact. Throws UNSUPPORTED for a dtype that converts_to_float refuses.
void to_float(std::string_view dtype, std::span<const std::byte> elements, std::span<float> out);

}  // namespace tessera::host
