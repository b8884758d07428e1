// A safetensors file from anybody: whatever its bytes, its reader accepts it or says why not, and of what it accepts
// every element can be read. The file is in memory.
#include <cstring>

#include "fuzz/fuzz_target.h"
#include "fuzz/memory_file.h"
#include "weights/element_conversion.h"
#include "weights/safetensors.h"

namespace tessera::testing {
using namespace host;
namespace {

void use(const SafetensorsFile& file) {
  uint64_t num_bytes = 0;
  for (const auto& entry : file.header().tensors) {
    const SafetensorsTensor& tensor = entry.second;
    num_bytes += tensor.num_bytes;
    if (!converts_to_float(tensor.dtype)) continue;
    std::vector<float> values(tensor.num_elements);
    require(succeeds([&] { file.read(tensor.name, 0, values); }), "a tensor that was accepted cannot be read");
    float more = 0;
    require(!succeeds([&] { file.read(tensor.name, tensor.num_elements, std::span(&more, 1)); }),
            "more elements were read than the tensor has");
  }
  require(file.data_begin() + num_bytes == file.file().num_bytes(), "bytes belong to no tensor");
}

std::string file_of(const std::string& header, size_t num_data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + std::string(num_data_bytes, '?');
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {file_of(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24),
          file_of(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[4],"data_offsets":[16,24]},)"
                  R"("a":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},"e":{"dtype":"F16","shape":[0,3],)"
                  R"("data_offsets":[24,24]},"i":{"dtype":"I8","shape":[],"data_offsets":[24,25]}}   )",
                  25),
          file_of("{}", 0)};
}

}  // namespace tessera::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::testing;
  static const MemoryFile file;
  file.write({reinterpret_cast<const char*>(data), size});
  succeeds([] { use(tessera::host::SafetensorsFile(file.path())); });
  return 0;
}
