// Two images of 28 x 28 unsigned bytes, and their labels 5 and 0:
//
//     00 00 08 03  00 00 00 02  00 00 00 1c  00 00 00 1c  ........      type 08, 3 dims: 2, 28, 28; then 1568 bytes
//     00 00 08 01  00 00 00 02  05 00                                   type 08, 1 dim: 2
//
// A header states the length of its file, but is not trusted: a plain file must have that size before anything is
// allocated, and a compressed one is decompressed piece by piece. Errors in compressed files name the byte of the
// decompressed content.

#include "data/examples/idx_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr uint64_t kElementsPerRead = uint64_t{1} << 18;

[[noreturn]] void refuse(const ByteStream& stream, uint64_t byte, const std::string& what) {
  throw Error(TSR_E_INVALID_ARGUMENT, concat(stream.path(), ", byte ", byte,
                                             stream.is_compressed() ? " of the decompressed content: " : ": ", what));
}

[[noreturn]] void refuse_cut(const ByteStream& stream, const std::string& what) {
  refuse(stream, stream.position(),
         concat("the file ends here, but ", what, "; was it cut? Copy or download it again"));
}

uint32_t big_endian(std::span<const std::byte> bytes) {
  uint32_t value = 0;
  for (const std::byte b : bytes)
    value = value << 8 | std::to_integer<uint32_t>(b);
  return value;
}

bool is_type(uint8_t code) {
  return code >= 0x08 && code <= 0x0e && code != 0x0a;
}

std::string hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    if (!text.empty()) text += ' ';
    text += kDigits[std::to_integer<std::size_t>(b) >> 4];
    text += kDigits[std::to_integer<std::size_t>(b) & 15];
  }
  return text;
}

// Elements of all dims from `first` on; nothing when their number exceeds 64 bits.
std::optional<uint64_t> count(const IdxHeader& header, std::size_t first) {
  uint64_t product = 1;
  for (const uint32_t extent : std::span(header.dims).subspan(first)) {
    if (extent != 0 && product > std::numeric_limits<uint64_t>::max() / 8 / extent) return std::nullopt;
    product *= extent;
  }
  return product;
}

// Bytes of the whole file, by its header.
uint64_t total_bytes(const ByteStream& stream, const IdxHeader& header) {
  const auto num_elements = count(header, 0);
  if (!num_elements)
    refuse(stream, 4, concat("the dims ", header.dims_text(), " have more elements than any file; is it an IDX file?"));
  return header.num_bytes() + *num_elements * header.element_bytes();
}

template <class T, class Bits>
void convert(std::span<const std::byte> bytes, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Bits bits = 0;
    for (const std::byte b : bytes.subspan(i * sizeof(T), sizeof(T)))
      bits = static_cast<Bits>(static_cast<uint64_t>(bits) << 8 | std::to_integer<uint64_t>(b));
    out[i] = static_cast<double>(std::bit_cast<T>(bits));
  }
}

void convert(IdxType type, std::span<const std::byte> bytes, std::span<double> out) {
  switch (type) {
    case IdxType::unsigned_byte:
      return convert<uint8_t, uint8_t>(bytes, out);
    case IdxType::signed_byte:
      return convert<int8_t, uint8_t>(bytes, out);
    case IdxType::int16:
      return convert<int16_t, uint16_t>(bytes, out);
    case IdxType::int32:
      return convert<int32_t, uint32_t>(bytes, out);
    case IdxType::float32:
      return convert<float, uint32_t>(bytes, out);
    case IdxType::float64:
      return convert<double, uint64_t>(bytes, out);
  }
}

[[noreturn]] void refuse_length(const ByteStream& stream, const IdxHeader& header, uint64_t num_bytes) {
  const uint64_t total = total_bytes(stream, header);
  if (num_bytes < total)
    refuse(stream, num_bytes,
           concat("the file ends here, but its ", header.dims_text(), " elements and the header need ", total,
                  " bytes; was it cut? Copy or download it again"));
  refuse(stream, total,
         concat("the ", header.dims_text(), " elements end here, but the file continues; copy or download it again"));
}

// Calls use(value, index) for each element, piece by piece.
template <class Use>
void read_elements(ByteStream& stream, const IdxHeader& header, const Use& use) {
  const uint64_t total = total_bytes(stream, header), element_bytes = header.element_bytes();
  std::vector<double> values(std::min(kElementsPerRead, (total - header.num_bytes()) / element_bytes));
  std::vector<std::byte> bytes(values.size() * element_bytes);
  uint64_t index = 0;
  while (stream.position() < total) {
    const auto piece = std::span(bytes).first(std::min<uint64_t>(bytes.size(), total - stream.position()));
    if (stream.read(piece) < piece.size()) refuse_length(stream, header, stream.position());
    const auto converted = std::span(values).first(piece.size() / element_bytes);
    convert(header.type, piece, converted);
    for (const double value : converted)
      use(value, index++);
  }
  std::array<std::byte, 1> more{};
  if (stream.read(more) > 0) refuse_length(stream, header, total + 1);
}

// Bytes in a plain file: read where they are.
class FileFeatures : public FeatureTable {
 public:
  FileFeatures(const std::string& path, uint64_t begin) : file_(path), begin_(begin) {}

  void read(uint64_t example, std::span<float> out) const override {
    std::vector<uint8_t> bytes(out.size());
    file_.read(begin_ + example * out.size(), std::as_writable_bytes(std::span(bytes)));
    std::copy(bytes.begin(), bytes.end(), out.begin());
  }

  uint64_t num_bytes() const { return file_.num_bytes(); }

 private:
  ReadOnlyFile file_;
  uint64_t begin_;
};

std::unique_ptr<FeatureTable> bytes_in_file(ByteStream& stream, const IdxHeader& header) {
  auto features = std::make_unique<FileFeatures>(stream.path(), header.num_bytes());
  if (features->num_bytes() != total_bytes(stream, header)) refuse_length(stream, header, features->num_bytes());
  return features;
}

void check_memory(const ByteStream& stream, const IdxHeader& header, uint64_t bytes_each) {
  const auto num_elements = count(header, 0);
  if (num_elements && *num_elements <= kMaxFeatureBytes / bytes_each) return;
  refuse(
      stream, 4,
      concat("the features ", header.dims_text(), " take more than ", kMaxFeatureBytes, " bytes of memory; ",
             header.type == IdxType::unsigned_byte ? "decompress the file, which is then read in place"
                                                   : "use fewer examples, or unsigned bytes, which are read in place"));
}

template <class T>
std::unique_ptr<FeatureTable> held(ByteStream& stream, const IdxHeader& header) {
  check_memory(stream, header, sizeof(T));
  std::vector<T> features;
  read_elements(stream, header, [&](double value, uint64_t index) {
    const auto feature = static_cast<T>(value);
    if (!std::isfinite(static_cast<double>(feature)))
      refuse(stream, header.num_bytes() + index * header.element_bytes(),
             concat(value, " is not a finite number of float32; replace it"));
    features.push_back(feature);
  });
  return std::make_unique<HeldFeatures<T>>(std::move(features));
}

void check_images(const ByteStream& stream, const IdxHeader& header, int64_t num_features) {
  if (header.dims.size() < 2)
    refuse(stream, 3,
           concat("images have two dims or more, and this file has ", header.dims.size(),
                  "; is it the file of the labels?"));
  if (header.dims[0] == 0) refuse(stream, 4, "the file holds no image; use data with examples");
  const auto num_elements = count(header, 1);
  if (num_elements != static_cast<uint64_t>(num_features))
    refuse(stream, 8,
           concat("images of ", header.dims_text(), " do not have the ", num_features,
                  " features each that the model takes; use data of that size, or a model for this one"));
}

}  // namespace

uint64_t IdxHeader::element_bytes() const {
  switch (type) {
    case IdxType::unsigned_byte:
    case IdxType::signed_byte:
      return 1;
    case IdxType::int16:
      return 2;
    case IdxType::int32:
    case IdxType::float32:
      return 4;
    case IdxType::float64:
      return 8;
  }
  return 0;
}

std::string IdxHeader::dims_text() const {
  std::string text;
  for (const uint32_t extent : dims)
    text += concat(text.empty() ? "" : " x ", extent);
  return text;
}

IdxHeader read_idx_header(ByteStream& stream) {
  std::array<std::byte, 4> start{};
  if (stream.read(start) < start.size()) refuse_cut(stream, "an IDX file begins with 4 bytes");
  if (start[0] != std::byte{0} || start[1] != std::byte{0})
    refuse(stream, 0, concat("an IDX file begins with 00 00, and this one with ", hex(std::span(start).first(2))));
  if (!is_type(std::to_integer<uint8_t>(start[2])))
    refuse(stream, 2,
           concat("type ", hex(std::span(start).subspan(2, 1)), " is not one of IDX: 08 (unsigned byte), 09 ",
                  "(signed byte), 0b (int16), 0c (int32), 0d (float32), 0e (float64)"));
  const auto num_dims = std::to_integer<std::size_t>(start[3]);
  if (num_dims == 0) refuse(stream, 3, "the file has 0 dims, and IDX files have 1 or more");
  IdxHeader header{static_cast<IdxType>(start[2]), {}};
  std::vector<std::byte> extents(4 * num_dims);
  if (stream.read(extents) < extents.size())
    refuse_cut(stream, concat("its header of ", num_dims, " dims needs ", 4 + extents.size(), " bytes"));
  for (std::size_t i = 0; i < num_dims; ++i)
    header.dims.push_back(big_endian(std::span(extents).subspan(4 * i, 4)));
  return header;
}

IdxImages read_idx_images(const std::string& path, int64_t num_features) {
  ByteStream stream(path);
  const IdxHeader header = read_idx_header(stream);
  check_images(stream, header, num_features);
  IdxImages images{nullptr, header.dims[0], FeatureKind::bytes};
  if (header.type != IdxType::unsigned_byte) {
    images.kind = FeatureKind::values;
    images.features = held<float>(stream, header);
  } else if (stream.is_compressed()) {
    images.features = held<uint8_t>(stream, header);
  } else {
    images.features = bytes_in_file(stream, header);
  }
  return images;
}

std::vector<int32_t> read_idx_labels(const std::string& path, int64_t num_classes, uint64_t num_images) {
  ByteStream stream(path);
  const IdxHeader header = read_idx_header(stream);
  if (header.dims.size() != 1)
    refuse(
        stream, 3,
        concat("labels have one dim, and this file has ", header.dims_text(), "; is it the file of the ", "images?"));
  if (header.type == IdxType::float32 || header.type == IdxType::float64)
    refuse(stream, 2, "labels are integers, and this file has floating-point numbers");
  if (header.dims[0] != num_images)
    refuse(stream, 4,
           concat("the file has ", header.dims[0], " labels, and the other one ", num_images,
                  " images; give two files of one set"));
  std::vector<int32_t> labels;
  read_elements(stream, header, [&](double value, uint64_t index) {
    if (!(value >= 0 && value < static_cast<double>(num_classes)))
      refuse(stream, header.num_bytes() + index * header.element_bytes(),
             concat("label ", value, " of example ", index, " is not one of the classes of the model, 0 to ",
                    num_classes - 1));
    labels.push_back(static_cast<int32_t>(value));
  });
  return labels;
}

ExampleTable read_idx(const std::string& images_path, const std::string& labels_path, const ExampleShape& shape) {
  IdxImages images = read_idx_images(images_path, shape.num_features);
  std::vector<int32_t> labels = read_idx_labels(labels_path, shape.num_classes, images.num_images);
  return {std::move(images.features), std::move(labels), images.kind,
          concat(images_path, ": IDX images, labels in ", labels_path)};
}

}  // namespace tessera::host
