// A pair of IDX files from anybody, plain or gzip. An input is the images, up to the number of bytes that its last two
// say, and the labels. Whatever their bytes, they are accepted or refused, and what is accepted can be read.
#include "data/examples/example_source.h"
#include "fuzz/fuzz_target.h"
#include "fuzz/memory_file.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr ExampleShape kShape{.num_features = 4, .num_classes = 3};

void use(const ExampleSource& source) {
  std::vector<float> features(static_cast<size_t>(kShape.num_features));
  std::vector<int32_t> label(1);
  for (uint32_t i = 0; i < source.num_examples(); ++i) {
    require(succeeds([&] { source.read({&i, 1}, features, label); }), "an example that was accepted cannot be read");
    require(label[0] >= 0 && label[0] < kShape.num_classes, "a label is not one of the classes");
  }
  content_hash(source);
}

/// Two files and the size of the first.
std::string input_of(const std::string& images, const std::string& labels) {
  return images + labels + static_cast<char>(images.size() >> 8) + static_cast<char>(images.size() & 255);
}

std::string idx(uint8_t type, const std::vector<uint8_t>& dims, const std::string& elements) {
  std::string bytes = {'\0', '\0', static_cast<char>(type), static_cast<char>(dims.size())};
  for (const uint8_t extent : dims)
    bytes += std::string(3, '\0') + static_cast<char>(extent);
  return bytes + elements;
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  const std::string labels = idx(0x08, {2}, std::string("\1\2", 2));
  return {input_of(idx(0x08, {2, 2, 2}, "abcdefgh"), labels),
          input_of(idx(0x0b, {2, 4}, "abcdefghabcdefgh"), idx(0x0c, {2}, std::string("\0\0\0\1\0\0\0\2", 8))),
          input_of(idx(0x0e, {2, 4}, std::string(64, '\0')), labels), input_of(idx(0x0d, {0, 4}, ""), labels)};
}

}  // namespace tessera::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::testing;
  if (size < 2) return 0;
  static const MemoryFile images("images"), labels("labels");
  const std::string_view both(reinterpret_cast<const char*>(data), size - 2);
  const size_t num_image_bytes = std::min<size_t>(both.size(), size_t{data[size - 2]} << 8 | data[size - 1]);
  images.write(both.substr(0, num_image_bytes));
  labels.write(both.substr(num_image_bytes));
  succeeds([] { use(*tessera::host::open_examples(images.path() + ":" + labels.path(), {kShape, {}, {}})); });
  return 0;
}
