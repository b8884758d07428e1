#include "data/examples/idx_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "support/gzip.h"
#include "support/idx_bytes.h"
#include "support/temp_folder.h"

namespace tessera::host {
namespace {

using testing::expect_error;
using testing::gzip;
using testing::idx_bytes;
using testing::idx_header;
using testing::TempFolder;

constexpr ExampleShape kShape{4, 3};
const std::vector<uint8_t> kPixels = {0, 1, 2, 3, 252, 253, 254, 255, 9, 9, 9, 9};  // 3 images of 2 x 2
const std::vector<uint8_t> kLabels = {2, 0, 1};
const std::string kImagesFile = idx_bytes(0x08, {3, 2, 2}, kPixels);
const std::string kLabelsFile = idx_bytes(0x08, {3}, kLabels);

std::vector<float> features_of(const FeatureTable& features, uint64_t num_images) {
  std::vector<float> all(num_images * 4);
  for (uint64_t i = 0; i < num_images; ++i)
    features.read(i, std::span(all).subspan(4 * i, 4));
  return all;
}

void read_images(const std::string& path) {
  const IdxImages images = read_idx_images(path, kShape.num_features);
  features_of(*images.features, images.num_images);
}

TEST(IdxFile, ReadsImagesAndLabelsPlainAndCompressed) {
  const TempFolder folder;
  const std::vector<float> expected(kPixels.begin(), kPixels.end());
  for (const bool is_compressed : {false, true}) {
    const auto bytes = [&](const std::string& file) { return is_compressed ? gzip(file) : file; };
    const ExampleTable table =
        read_idx(folder.write("images", bytes(kImagesFile)), folder.write("labels", bytes(kLabelsFile)), kShape);
    EXPECT_EQ(features_of(*table.features, 3), expected);
    EXPECT_EQ(table.labels, (std::vector<int32_t>{2, 0, 1}));
    EXPECT_EQ(table.kind, FeatureKind::bytes);
  }
}

template <class T>
void expect_type(uint8_t type) {
  const TempFolder folder;
  const std::vector<T> elements = {0, 1, 100, std::numeric_limits<T>::lowest(), 7, 7, 7, std::numeric_limits<T>::max()};
  const IdxImages images = read_idx_images(folder.write("images", idx_bytes(type, {2, 4}, elements)), 4);
  EXPECT_EQ(images.kind, FeatureKind::values);
  EXPECT_EQ(features_of(*images.features, 2), std::vector<float>(elements.begin(), elements.end()));
}

TEST(IdxFile, ReadsTheOtherTypes) {
  expect_type<int8_t>(0x09);
  expect_type<int16_t>(0x0b);
  expect_type<int32_t>(0x0c);
  expect_type<float>(0x0d);
  const TempFolder folder;
  const std::vector<double> elements = {0, -1.5, 1e300, 2};
  const std::string path = folder.write("doubles", idx_bytes(0x0e, {1, 4}, elements));
  expect_error([&] { read_images(path); }, {path + ", byte 28: 1e+300 is not a finite number of float32"});
}

TEST(IdxFile, LabelsMayBeOfEveryTypeOfIntegers) {
  const TempFolder folder;
  const std::vector<int32_t> expected = {2, 0, 1};
  EXPECT_EQ(read_idx_labels(folder.write("a", idx_bytes<int8_t>(0x09, {3}, {2, 0, 1})), 3, 3), expected);
  EXPECT_EQ(read_idx_labels(folder.write("a", idx_bytes<int16_t>(0x0b, {3}, {2, 0, 1})), 3, 3), expected);
  EXPECT_EQ(read_idx_labels(folder.write("a", idx_bytes<int32_t>(0x0c, {3}, {2, 0, 1})), 3, 3), expected);
}

TEST(IdxFile, ImagesNameTheByteThatIsWrong) {
  const TempFolder folder;
  const float nan = std::nanf("");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ", byte 0: the file ends here, but an IDX file begins with 4 bytes"},
      {"PK\3\4 and so on", ", byte 0: an IDX file begins with 00 00, and this one with 50 4b"},
      {idx_header(0x0a, {3, 2, 2}), ", byte 2: type 0a is not one of IDX"},
      {idx_header(0x00, {3, 2, 2}), ", byte 2: type 00 is not one of IDX"},
      {idx_header(0x08, {}), ", byte 3: the file has 0 dims"},
      {kLabelsFile, ", byte 3: images have two dims or more, and this file has 1; is it the file of the labels?"},
      {idx_header(0x08, {0, 2, 2}), ", byte 4: the file holds no image"},
      {idx_header(0x08, {3, 28, 28}), ", byte 8: images of 3 x 28 x 28 do not have the 4 features each"},
      {idx_header(0x08, {3, 0, 0}), ", byte 8: images of 3 x 0 x 0 do not have the 4 features each"},
      {idx_header(0x08, {1u << 31, 1u << 31}), ", byte 8: images of 2147483648 x 2147483648 do not have the 4"},
      {idx_header(0x08, {1, ~0u, ~0u, ~0u}), ", byte 8: images of 1 x 4294967295 x 4294967295 x 4294967295 do not"},
      {idx_header(0x08, std::vector<uint32_t>(255, ~0u)), ", byte 8: images of 4294967295 x"},
      {idx_header(0x08, {~0u, 2, 2}),
       ", byte 16: the file ends here, but its 4294967295 x 2 x 2 elements and the header need 17179869196"},
      {idx_header(0x0e, {~0u, 2, 2}),
       ", byte 4: the features 4294967295 x 2 x 2 take more than 4294967296 bytes of memory"},
      {kImagesFile + "xyz", ", byte 28: the 3 x 2 x 2 elements end here, but the file continues"},
      {idx_bytes<float>(0x0d, {1, 4}, {0, 1, nan, 0}), ", byte 20: nan is not a finite number"},
      {idx_bytes<float>(0x0d, {1, 4}, {0, 1, 2, 0}) + "x", ", byte 28: the 1 x 4 elements end here"},
  };
  for (const auto& [bytes, sentence] : cases) {
    const std::string path = folder.write("images", bytes);
    expect_error([&] { read_images(path); }, {path + sentence});
  }
}

TEST(IdxFile, CompressedImagesAreMeasuredByWhatIsInThem) {
  const TempFolder folder;
  const std::string path = folder.path("images.gz");
  folder.write("images.gz", gzip(kImagesFile + "x"));
  expect_error([&] { read_images(path); },
               {path + ", byte 28 of the decompressed content: the 3 x 2 x 2 elements end"});
  // 16 GiB by its header, and nearly none by its content.
  folder.write("images.gz", gzip(idx_header(0x08, {~0u, 2, 2})));
  expect_error([&] { read_images(path); }, {"take more than 4294967296 bytes of memory; decompress the file"});
  folder.write("images.gz", gzip(idx_header(0x08, {1u << 29, 2, 2}) + "pixels"));
  expect_error([&] { read_images(path); }, {path + ", byte 22 of the decompressed content: the file ends"});
}

TEST(IdxFile, LabelsNameTheByteThatIsWrong) {
  const TempFolder folder;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {kImagesFile, ", byte 3: labels have one dim, and this file has 3 x 2 x 2; is it the file of the images?"},
      {idx_bytes<float>(0x0d, {3}, {0, 1, 2}), ", byte 2: labels are integers"},
      {idx_bytes<uint8_t>(0x08, {2}, {0, 1}), ", byte 4: the file has 2 labels, and the other one 3 images"},
      {idx_header(0x08, {1u << 31}), ", byte 4: the file has 2147483648 labels"},
      {idx_bytes<uint8_t>(0x08, {3}, {0, 3, 1}),
       ", byte 9: label 3 of example 1 is not one of the classes of the model, 0 to 2"},
      {idx_bytes<int16_t>(0x0b, {3}, {0, 1, -1}), ", byte 12: label -1 of example 2"},
      {kLabelsFile + "x", ", byte 11: the 3 elements end here, but the file continues"},
      {gzip(kLabelsFile + "x"), ", byte 11 of the decompressed content: the 3 elements end here"},
  };
  for (const auto& [bytes, sentence] : cases) {
    const std::string path = folder.write("labels", bytes);
    expect_error([&] { read_idx_labels(path, 3, 3); }, {path + sentence});
  }
}

TEST(IdxFile, CutAtAnyByteItIsRefused) {
  const TempFolder folder;
  const auto expect_refused = [&](const std::string& whole, const auto& read) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
      const std::string path = folder.write("cut", whole.substr(0, length));
      expect_error([&] { read(path); }, {path, ", byte "});
    }
  };
  const std::string floats = idx_bytes<float>(0x0d, {1, 4}, {0, 1, 2, 3});
  const auto labels = [](const std::string& path) { read_idx_labels(path, 3, 3); };
  for (const std::string& file : {kImagesFile, floats, gzip(kImagesFile), gzip(floats)})
    expect_refused(file, read_images);
  for (const std::string& file : {kLabelsFile, gzip(kLabelsFile)})
    expect_refused(file, labels);
}

// Whatever a header says, the file is refused, or says what its size allows.
TEST(IdxFile, AnyByteOfAHeaderMayBeAnything) {
  const TempFolder folder;
  for (std::size_t i = 0; i < 16; ++i)
    for (const int value : {0, 1, 2, 3, 4, 8, 9, 0x0b, 0x0c, 0x0d, 0x0e, 0x7f, 0x80, 0xff}) {
      std::string file = kImagesFile;
      if (file[i] == static_cast<char>(value)) continue;
      file[i] = static_cast<char>(value);
      for (const std::string& bytes : {file, gzip(file)}) {
        const std::string path = folder.write("images", bytes);
        if (i == 2 && value == 9) {
          EXPECT_NO_THROW(read_images(path)) << "signed bytes";
        } else {
          expect_error([&] { read_images(path); }, {path + ", byte "});
        }
      }
    }
}

}  // namespace
}  // namespace tessera::host
