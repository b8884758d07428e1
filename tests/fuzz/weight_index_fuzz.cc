// A model.safetensors.index.json from anybody: its reader says which files beside it hold the weights, or why not.
#include <algorithm>

#include "fuzz/fuzz_target.h"
#include "fuzz/memory_file.h"
#include "weights/weight_files.h"

namespace tessera::testing {
using namespace host;
namespace {

/// Names come from the file, and are opened.
void use(const WeightFiles& files, const std::string& folder) {
  require(!files.paths.empty() && files.paths.size() <= files.index.size(), "another number of files");
  require(std::ranges::is_sorted(files.paths), "files in another order");
  for (const std::string& path : files.paths) {
    require(path.starts_with(folder + "/"), "a file in another folder");
    const std::string name = path.substr(folder.size() + 1);
    require(!name.empty() && name != "." && name != ".." && name.find('/') == name.npos, "not the name of a file");
  }
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"metadata": {"total_size": 24}, "weight_map": {"wte.weight": "model-00001-of-00002.safetensors",)"
      R"("h.0.ln_1.weight": "model-00002-of-00002.safetensors", "wpe.weight": "model-00001-of-00002.safetensors"}})",
      R"({"weight_map": {"a": "../b", "c": "."}})", "{}"};
}

}  // namespace tessera::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::testing;
  static const MemoryFile file("model.safetensors.index.json");
  file.write({reinterpret_cast<const char*>(data), size});
  succeeds([] { use(tessera::host::find_weight_files(file.folder()), file.folder()); });
  return 0;
}
