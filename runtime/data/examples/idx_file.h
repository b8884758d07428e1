// The IDX format of MNIST: two zero bytes, the type, the number of dims, the extent of each dim as big-endian uint32,
// then the elements, big-endian, the last dim fastest.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/examples/byte_stream.h"
#include "data/examples/example_table.h"

namespace tessera::host {

enum class IdxType : uint8_t {
  unsigned_byte = 0x08,
  signed_byte = 0x09,
  int16 = 0x0b,
  int32 = 0x0c,
  float32 = 0x0d,
  float64 = 0x0e
};

struct IdxHeader {
  IdxType type = IdxType::unsigned_byte;
  std::vector<uint32_t> dims;

  uint64_t num_bytes() const { return 4 + 4 * dims.size(); }
  uint64_t element_bytes() const;
  std::string dims_text() const;  ///< "60000 x 28 x 28"
};

/// Reads the header, which is at the start of the stream. Throws INVALID_ARGUMENT naming file and byte.
IdxHeader read_idx_header(ByteStream& stream);

struct IdxImages {
  std::unique_ptr<FeatureTable> features;
  uint64_t num_images = 0;
  FeatureKind kind = FeatureKind::bytes;
};

/// Images, plain or gzip: two dims or more, of which the first counts them and the others have `num_features` elements
/// together. All but the bytes of a plain file are held in memory. Throws INVALID_ARGUMENT naming file and byte, also
/// for a file that is shorter or longer than its header says.
IdxImages read_idx_images(const std::string& path, int64_t num_features);

/// Labels, plain or gzip: one dim, one label for each image, integers in [0, num_classes). Throws like
/// read_idx_images.
std::vector<int32_t> read_idx_labels(const std::string& path, int64_t num_classes, uint64_t num_images);

/// Images and their labels.
ExampleTable read_idx(const std::string& images, const std::string& labels, const ExampleShape& shape);

}  // namespace tessera::host
