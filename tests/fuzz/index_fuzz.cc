// index.json from anybody: whatever the text, its reader accepts it or says why not. An input is the text after the
// first line, whose checksum is computed here, since no change would come past it.
#include <cstdio>
#include <span>

#include "checkpoint/index_text.h"
#include "checkpoint/inspect.h"
#include "fuzz/fuzz_target.h"
#include "storage/block_sums.h"

namespace tessera::testing {
using namespace host;
namespace {

std::string with_checksum(std::string_view rest) {
  char line[40];
  std::snprintf(line, sizeof line, "{\"crc32c\": \"%08x\",\n", crc32c(std::as_bytes(std::span(rest))));
  return line + std::string(rest);
}

std::string without_first_line(const std::string& text) {
  return text.substr(text.find('\n') + 1);
}

/// Where readers look an element up, without a check of their own.
void require_found(const SavedTensor& tensor, uint64_t element) {
  size_t num_places = 0;
  for (const TensorPart& part : tensor.parts) {
    const ElementPlace place = find_element(part.ranges, element);
    if (!place.num_elements) continue;
    ++num_places;
    require(place.position + place.num_elements <= part.num_elements(), "an element's place is beyond its part");
  }
  require(num_places == 1, "an element is not in one part");
}

void use(const CheckpointIndex& index) {
  for (const auto& [name, tensor] : index.tensors) {
    const uint64_t num_elements = tensor.num_elements();
    for (const uint64_t element : {uint64_t{0}, num_elements / 2, num_elements - 1})
      if (element < num_elements) require_found(tensor, element);
    for (const TensorPart& part : tensor.parts)
      require(part.file < index.files.size(), "a part is in a file that is not there");
  }
  const std::string text = print_index(index);
  CheckpointIndex again;
  require(succeeds([&] { again = parse_index(text, "printed"); }), "what was printed does not read back");
  require(print_index(again) == text, "what was read back is another index");
}

CheckpointIndex small_index() {
  CheckpointIndex index;
  index.state = {10, 9, 640, 320, 32768, 7};
  index.run.tessera = "0.12";
  index.run.model = "char";
  index.run.has_config = true;
  index.run.model_facts = {{"layers of the model", "2"}};
  index.run.items = "tokens";
  index.run.settings = {{"lr", "0.1"}, {"seed", "1"}};
  index.run.data = {"tokens", "99"};
  index.run.data_fingerprint = "99 tokens, sha256 0";
  index.run.mesh = {{"dp", 2}, {"tp", 2}};
  index.run.strategies = {{"dp", "ddp"}, {"tp", "tensor"}};
  index.run.plugins = {{"org.tessera.ddp", "0.12"}};
  index.files = {{"rank-00000.safetensors", 200, 80, 1}, {"rank-00001.safetensors", 100, 60, 2}};
  index.tensors["w"] = {"F32", {3, 8}, {{0, {{0, 4, 3, 8}}, {11}}, {1, {{4, 4, 3, 8}}, {12}}}};
  index.tensors["optim.w.m"] = {"F32", {3, 8}, {{0, {{0, 24, 1, 0}}, {13}}}};
  index.tensors["b"] = {"BF16", {5}, {{1, {{0, 2, 1, 0}, {3, 2, 1, 0}}, {14}}, {0, {{2, 1, 1, 0}}, {15}}}};
  return index;
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  CheckpointIndex without_tensors = small_index();
  without_tensors.tensors.clear();
  RankPart part;
  part.file = small_index().files.front();
  part.tensors["w"] = {"F32", {3, 8}, {{0, {{0, 4, 3, 8}}, {11}}}};
  return {without_first_line(print_index(small_index())), without_first_line(print_index(without_tensors)),
          print_rank_part(part)};
}

}  // namespace tessera::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::testing;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  tessera::host::CheckpointIndex index;
  if (succeeds([&] { index = tessera::host::parse_index(with_checksum(input), "index.json"); })) use(index);
  succeeds([&] { tessera::host::parse_index(input, "index.json"); });
  succeeds([&] { tessera::host::parse_rank_part(input, "rank-0.json"); });
  return 0;
}
