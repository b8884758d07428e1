// Changes one tensor of a safetensors file in place: its length, a header in JSON with the range of each tensor, bytes.

#include "support/large_gradients.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/local_job.h"

namespace tessera::testing {

void write_golden_model_with_large_gradients(const TempFolder& folder, float factor) {
  std::filesystem::copy(golden_folder() + "/config.json", folder.path("config.json"));
  std::string bytes = file_bytes(golden_folder() + "/model.safetensors");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  const auto header = nlohmann::json::parse(bytes.substr(sizeof header_bytes, header_bytes));
  for (const auto& [name, tensor] : header.items()) {
    if (!name.ends_with("ln_f.weight")) continue;
    if (tensor["dtype"] != "F32") throw std::runtime_error(name + " is not of float32");
    for (uint64_t at = tensor["data_offsets"][0]; at < tensor["data_offsets"][1]; at += sizeof(float)) {
      float value = 0;
      char* element = bytes.data() + sizeof header_bytes + header_bytes + at;
      std::memcpy(&value, element, sizeof value);
      value *= factor;
      std::memcpy(element, &value, sizeof value);
    }
  }
  folder.write("model.safetensors", bytes);
}

}  // namespace tessera::testing
