// Checks a header strictly: keys and dtypes must be known, sizes are multiplied with overflow checks, and tensors must
// cover the data without gap or overlap. A file may be cut, half downloaded or malicious; what passes here can be read
// without further checks.
//
//     {"__metadata__": {"format": "pt"},
//      "wte.weight": {"dtype": "F32", "shape": [50257, 768], "data_offsets": [0, 154389504]}, ...}
//
// Offsets count from the end of the header, and end - begin is the size of the shape in bytes.

#include "weights/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/concat.h"
#include "base/strict_json.h"
#include "tessera/error.hpp"
#include "weights/element_conversion.h"

namespace tessera::host {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 3;  // header, tensor, list of numbers

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw Error(TSR_E_INVALID_ARGUMENT, concat(parts...));
}

uint64_t multiply(uint64_t a, uint64_t b, const std::string& where) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) refuse(where, " has a shape whose size does not fit 64 bits");
  return product;
}

std::vector<uint64_t> parse_numbers(const json& value, const std::string& where, const char* key) {
  if (!value.is_array()) refuse(where, ": ", key, " is not a list");
  std::vector<uint64_t> numbers;
  for (const json& number : value) {
    if (!number.is_number_unsigned()) refuse(where, ": ", key, " holds something other than whole numbers >= 0");
    numbers.push_back(number.get<uint64_t>());
  }
  return numbers;
}

SafetensorsTensor parse_tensor(const std::string& name, const json& value, const std::string& where) {
  if (!value.is_object()) refuse(where, " is not described by an object");
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(key)) refuse(where, " has no ", key);
  }
  if (value.size() != 3) refuse(where, " has keys other than dtype, shape and data_offsets");

  SafetensorsTensor tensor;
  tensor.name = name;
  if (!value["dtype"].is_string()) refuse(where, ": dtype is not a string");
  tensor.dtype = value["dtype"].get<std::string>();
  const uint64_t num_element_bytes = element_bytes(tensor.dtype);
  if (num_element_bytes == 0) refuse(where, " has the unknown dtype \"", tensor.dtype, "\"");

  tensor.shape = parse_numbers(value["shape"], where, "shape");
  tensor.num_elements = 1;
  for (const uint64_t extent : tensor.shape)
    tensor.num_elements = multiply(tensor.num_elements, extent, where);
  tensor.num_bytes = multiply(tensor.num_elements, num_element_bytes, where);

  const std::vector<uint64_t> offsets = parse_numbers(value["data_offsets"], where, "data_offsets");
  if (offsets.size() != 2 || offsets[1] < offsets[0]) refuse(where, ": data_offsets is not [begin, end]");
  tensor.data_offset = offsets[0];
  if (offsets[1] - offsets[0] != tensor.num_bytes) {
    refuse(where, " has ", offsets[1] - offsets[0], " bytes of data, but its shape ", shape_text(tensor.shape), " of ",
           tensor.dtype, " needs ", tensor.num_bytes);
  }
  return tensor;
}

std::map<std::string, std::string> parse_metadata(const json& value, const std::string& where) {
  if (!value.is_object()) refuse(where, ": __metadata__ is not an object");
  std::map<std::string, std::string> metadata;
  for (const auto& item : value.items()) {
    if (!item.value().is_string()) refuse(where, ": __metadata__ \"", item.key(), "\" is not a string");
    metadata[item.key()] = item.value().get<std::string>();
  }
  return metadata;
}

void check_coverage(const SafetensorsHeader& header, uint64_t num_data_bytes, const std::string& where) {
  std::vector<const SafetensorsTensor*> by_offset;
  for (const auto& entry : header.tensors)
    by_offset.push_back(&entry.second);
  // Tensors without elements share their offset with the next one and come before it.
  std::sort(by_offset.begin(), by_offset.end(), [](const SafetensorsTensor* a, const SafetensorsTensor* b) {
    return std::pair(a->data_offset, a->num_bytes) < std::pair(b->data_offset, b->num_bytes);
  });
  // After each tensor, `end` is within the data: the sum cannot overflow.
  uint64_t end = 0;
  for (const SafetensorsTensor* tensor : by_offset) {
    if (tensor->num_bytes > num_data_bytes || tensor->data_offset > num_data_bytes - tensor->num_bytes) {
      refuse(where, ": tensor ", tensor->name, " ends beyond the ", num_data_bytes,
             " bytes of data in the file; was the file cut?");
    }
    if (tensor->data_offset < end) refuse(where, ": tensor ", tensor->name, " overlaps the one before it");
    if (tensor->data_offset > end) {
      refuse(where, ": there is a gap of ", tensor->data_offset - end, " bytes before tensor ", tensor->name);
    }
    end += tensor->num_bytes;
  }
  if (end != num_data_bytes) refuse(where, ": ", num_data_bytes - end, " bytes at the end belong to no tensor");
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t num_data_bytes, const std::string& where) {
  if (text.empty() || text.front() != '{') refuse(where, ": the header does not start with '{'; is it safetensors?");
  const json parsed = parse_strict_json(text, concat(where, ": the header"), kMaxDepth);
  SafetensorsHeader header;
  for (const auto& item : parsed.items()) {
    if (item.key() == "__metadata__") {
      header.metadata = parse_metadata(item.value(), where);
    } else {
      header.tensors[item.key()] = parse_tensor(item.key(), item.value(), concat(where, ": tensor ", item.key()));
    }
  }
  check_coverage(header, num_data_bytes, where);
  return header;
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace tessera::host
