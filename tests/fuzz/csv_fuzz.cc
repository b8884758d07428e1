// A CSV file from anybody, plain or gzip: whatever its bytes, its reader accepts it or says why not, and of what it
// accepts every example can be read, scaled in each way.
#include <cmath>

#include "data/examples/example_source.h"
#include "fuzz/fuzz_target.h"
#include "fuzz/memory_file.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr ExampleShape kShape{.num_features = 3, .num_classes = 4};

void use(const ExampleSource& source) {
  uint64_t num_counted = 0;
  for (const uint64_t count : source.class_counts())
    num_counted += count;
  require(num_counted == source.num_examples(), "an example is in no class");
  std::vector<float> features(static_cast<size_t>(kShape.num_features));
  std::vector<int32_t> label(1);
  for (uint32_t i = 0; i < source.num_examples(); ++i) {
    require(succeeds([&] { source.read({&i, 1}, features, label); }), "an example that was accepted cannot be read");
    require(label[0] >= 0 && label[0] < kShape.num_classes, "a label is not one of the classes");
    for (const float feature : features)
      require(std::isfinite(feature), "a feature is not finite");
  }
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  using namespace std::string_literals;
  return {"1,2,3,0\n4,5,6,3\n", "a;b;\"c;d\";label\r\n1e-3;-2;.5;1\r\n 4 ;5;\"6\";2\r\n\r\n",
          "\xef\xbb\xbf"
          "0\t1\t2\t3\n",
          "0,1,2,3\n0.5,1,inf,2\n",
          // "1,2,3,0\n" as gzip writes it
          "\x1f\x8b\x08\0\0\0\0\0\x02\x03\x33\xd4\x31\xd2\x31\xd6\x31\xe0\x02\0\xe7\x8c\x81\x85\x08\0\0\0"s};
}

}  // namespace tessera::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::testing;
  using namespace tessera::host;
  static const MemoryFile file("data.csv");
  file.write({reinterpret_cast<const char*>(data), size});
  for (const DataScale scale : {DataScale::column, DataScale::file, DataScale::none})
    succeeds([&] {
      const LabelColumn label = scale == DataScale::file ? LabelColumn::first : LabelColumn::last;
      use(*open_examples(file.path(), {.shape = kShape, .label = label, .scale = scale}));
    });
  return 0;
}
