#include "weights/safetensors.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "weights/safetensors_writer.h"

namespace tessera::host {
namespace {

using testing::expect_error;
using testing::file_bytes;
using testing::raw_bytes;
using testing::TempFolder;

// A file of any header and data; the length before the header is right unless given.
std::string file_of(const std::string& header, const std::string& data, uint64_t length) {
  return raw_bytes(std::array{length}) + header + data;
}
std::string file_of(const std::string& header, const std::string& data) {
  return file_of(header, data, header.size());
}

// {"a": {"dtype": ..., "shape": ..., "data_offsets": ...}}
std::string tensor_text(const std::string& name, const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

std::vector<float> read(const SafetensorsFile& file, const std::string& name, uint64_t offset,
                        std::size_t num_elements) {
  std::vector<float> out(num_elements);
  file.read(name, offset, out);
  return out;
}

class Safetensors : public ::testing::Test {
 protected:
  SafetensorsFile open(const std::string& bytes) { return SafetensorsFile(folder_.write("t.safetensors", bytes)); }
  void refuse(const std::string& bytes, const std::vector<std::string>& parts) {
    std::vector<std::string> all = {"t.safetensors"};
    all.insert(all.end(), parts.begin(), parts.end());
    expect_error([&] { open(bytes); }, all);
  }
  void refuse_header(const std::string& header, const std::string& data, const std::vector<std::string>& parts) {
    refuse(file_of(header, data), parts);
  }

  TempFolder folder_;
};

TEST_F(Safetensors, ReadsAnyRangeOfEveryFloatType) {
  const std::array<float, 3> f32 = {1.5f, -2.25f, 1e-40f};
  const std::array<uint16_t, 5> f16 = {0x3c00, 0xc100, 0x0001, 0x7bff, 0xfc00};
  const std::array<uint16_t, 2> bf16 = {0x3fc0, 0xc2f7};
  const std::array<double, 2> f64 = {0.1, -1e300};
  const SafetensorsFile file = open(
      file_of("{" + tensor_text("d", "F64", "[2]", "[0,16]") + "," + tensor_text("s", "F32", "[3,1]", "[16,28]") + "," +
                  tensor_text("h", "F16", "[5]", "[28,38]") + "," + tensor_text("b", "BF16", "[2]", "[38,42]") + "}  ",
              raw_bytes(f64) + raw_bytes(f32) + raw_bytes(f16) + raw_bytes(bf16)));
  EXPECT_EQ(read(file, "s", 0, 3), (std::vector<float>{1.5f, -2.25f, 1e-40f}));
  EXPECT_EQ(read(file, "s", 1, 1), (std::vector<float>{-2.25f}));
  EXPECT_EQ(read(file, "h", 0, 5), (std::vector<float>{1, -2.5, 0x1p-24f, 65504, -INFINITY}));
  EXPECT_EQ(read(file, "h", 3, 2), (std::vector<float>{65504, -INFINITY}));
  EXPECT_EQ(read(file, "b", 0, 2), (std::vector<float>{1.5f, -123.5f}));
  EXPECT_EQ(read(file, "d", 0, 2), (std::vector<float>{0.1f, -INFINITY}));
  EXPECT_EQ(read(file, "d", 2, 0), std::vector<float>());
  EXPECT_EQ(file.tensor("s").shape, (std::vector<uint64_t>{3, 1}));
  expect_error([&] { read(file, "s", 1, 3); }, {"t.safetensors", "elements 1 to 4 of tensor s", "3"});
  expect_error([&] { read(file, "s", ~uint64_t{0}, 1); }, {"t.safetensors", "s"});
  expect_error([&] { read(file, "x", 0, 1); }, {"t.safetensors", "no tensor x"});
}

// Every half, against its value by the definition.
TEST_F(Safetensors, ConvertsAllHalves) {
  std::vector<uint16_t> halves(65536);
  for (uint32_t i = 0; i < halves.size(); ++i)
    halves[i] = static_cast<uint16_t>(i);
  const SafetensorsFile file =
      open(file_of("{" + tensor_text("h", "F16", "[65536]", "[0,131072]") + "}", raw_bytes(halves)));
  const std::vector<float> got = read(file, "h", 0, halves.size());
  for (int i = 0; i < 65536; ++i) {
    const int exponent = i >> 10 & 31, mantissa = i & 1023, sign = i >> 15 ? -1 : 1;
    if (exponent == 31 && mantissa != 0) {
      ASSERT_TRUE(std::isnan(got[i])) << i;
      continue;
    }
    const double expected = exponent == 31  ? INFINITY
                            : exponent == 0 ? std::ldexp(mantissa, -24)
                                            : std::ldexp(1024 + mantissa, exponent - 25);
    ASSERT_EQ(got[i], sign * expected) << i;
    ASSERT_EQ(std::signbit(got[i]), sign < 0) << i;
  }
}

TEST_F(Safetensors, ConvertsRangesLongerThanItsBuffer) {
  std::vector<uint16_t> values(200'000);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<uint16_t>(0x4000 + i % 64);
  const SafetensorsFile file =
      open(file_of("{" + tensor_text("b", "BF16", "[200000]", "[0,400000]") + "}", raw_bytes(values)));
  const std::vector<float> got = read(file, "b", 3, 199'990);
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], 2.0f + static_cast<float>((i + 3) % 64) / 64) << i;
  }
}

TEST_F(Safetensors, ReadsScalarsEmptyTensorsAndMetadata) {
  const SafetensorsFile file =
      open(file_of("{\"__metadata__\":{\"format\":\"pt\"}," + tensor_text("e", "F32", "[0,7]", "[4,4]") + "," +
                       tensor_text("s", "F32", "[]", "[0,4]") + "}",
                   raw_bytes(std::array{7.0f})));
  EXPECT_EQ(read(file, "s", 0, 1), std::vector<float>{7});
  EXPECT_EQ(file.tensor("e").num_elements, 0u);
  EXPECT_EQ(file.header().metadata.at("format"), "pt");
  EXPECT_TRUE(open(file_of("{}", "")).header().tensors.empty());
}

TEST_F(Safetensors, OtherTypesAreKnownButNotFloats) {
  const SafetensorsFile file = open(file_of("{" + tensor_text("i", "I64", "[1]", "[0,8]") + "}", std::string(8, 'x')));
  expect_error([&] { read(file, "i", 0, 1); }, {"I64", "F32, F16, BF16 and F64"});
}

TEST_F(Safetensors, RefusesWhatIsNoSafetensorsFile) {
  refuse("", {"0 bytes"});
  refuse("1234567", {"7 bytes"});
  refuse(file_of("{}", "", 3), {"length 3"});
  refuse(file_of("{}", "", ~uint64_t{0}), {"length 18446744073709551615", "limit of 100000000"});
  refuse(file_of("{}", "", ~uint64_t{0} - 7), {"length"});
  refuse(file_of("{}", "", 100'000'001), {"length 100000001"});
  refuse(file_of("", ""), {"does not start with '{'"});
  refuse(file_of(" {}", ""), {"does not start with '{'"});
  refuse(file_of("[]", ""), {"does not start with '{'"});
  refuse(file_of("{} x", ""), {"not valid JSON"});
  refuse(file_of("{\"a\xff\":1}", ""), {"not valid JSON"});
  refuse(file_of("{}" + std::string(6, '\0'), ""), {"zero byte"});
  refuse(file_of("{\"a\\u0000b\":1}", ""), {"zero character"});
  refuse("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
         {"a pointer of Git LFS", "git lfs pull"});
  refuse(std::string("PK\x03\x04", 4) + std::string(100, 'z'), {"another format"});
  expect_error([&] { SafetensorsFile(folder_.path("absent")); }, {"absent", "No such file"});
}

TEST_F(Safetensors, RefusesMalformedTensors) {
  refuse_header("{\"a\":1}", "", {"tensor a", "object"});
  refuse_header("{\"a\":[]}", "", {"tensor a", "object"});
  refuse_header("{\"a\":{\"shape\":[],\"data_offsets\":[0,0]}}", "", {"tensor a", "no dtype"});
  refuse_header("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,0]}}", "", {"tensor a", "no shape"});
  refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[0]}}", "", {"tensor a", "no data_offsets"});
  refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":1}}", "",
                {"tensor a", "keys other"});
  refuse_header("{\"a\":{\"dtype\":32,\"shape\":[0],\"data_offsets\":[0,0]}}", "", {"tensor a", "dtype"});
  refuse_header("{" + tensor_text("a", "F31", "[0]", "[0,0]") + "}", "", {"tensor a", "F31"});
  refuse_header("{" + tensor_text("a", "f32", "[0]", "[0,0]") + "}", "", {"tensor a", "f32"});
  for (const char* shape : {"[-1]", "[1.0]", "[\"1\"]", "[null]", "[[1]]", "1", "{}", "[99999999999999999999]"}) {
    refuse_header("{" + tensor_text("a", "F32", shape, "[0,4]") + "}", "1234", {"t.safetensors"});
  }
  for (const char* offsets : {"[0]", "[0,4,4]", "[4,0]", "[-4,0]", "[0.0,4.0]", "4", "[]", "[\"0\",\"4\"]"}) {
    refuse_header("{" + tensor_text("a", "F32", "[1]", offsets) + "}", "1234", {"tensor a", "data_offsets"});
  }
  refuse_header("{\"__metadata__\":{\"a\":1}}", "", {"__metadata__", "\"a\"", "string"});
  refuse_header("{\"__metadata__\":[]}", "", {"__metadata__"});
  refuse_header("{\"__metadata__\":{\"a\":{\"b\":{\"c\":{}}}}}", "", {"nests deeper"});
}

TEST_F(Safetensors, RefusesDuplicateKeysEverywhere) {
  const std::string a = tensor_text("a", "F32", "[1]", "[0,4]");
  refuse_header("{" + a + "," + a + "}", "1234", {"\"a\" twice"});
  refuse_header("{" + a + ",\"\\u0061\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "1234",
                {"\"a\" twice"});
  refuse_header("{\"a\":{\"dtype\":\"F64\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "1234",
                {"\"dtype\" twice"});
  refuse_header("{\"__metadata__\":{\"x\":\"1\",\"x\":\"2\"}}", "", {"\"x\" twice"});
}

TEST_F(Safetensors, RefusesLengthsThatDoNotFit) {
  refuse_header("{" + tensor_text("a", "F32", "[2]", "[0,4]") + "}", "1234", {"tensor a", "4 bytes", "[2]", "needs 8"});
  refuse_header("{" + tensor_text("a", "F16", "[1]", "[0,4]") + "}", "1234", {"tensor a", "needs 2"});
  refuse_header("{" + tensor_text("a", "F32", "[4294967296,4294967296]", "[0,0]") + "}", "", {"tensor a", "64 bits"});
  refuse_header("{" + tensor_text("a", "F32", "[4611686018427387904]", "[0,0]") + "}", "", {"tensor a", "64 bits"});
  refuse_header("{" + tensor_text("a", "F32", "[1]", "[18446744073709551612,18446744073709551615]") + "}", "1234",
                {"tensor a"});
  refuse_header("{" + tensor_text("a", "U8", "[8]", "[18446744073709551607,18446744073709551615]") + "}", "1234",
                {"tensor a", "beyond"});
}

TEST_F(Safetensors, RefusesOverlapsGapsAndBytesBeyond) {
  const auto two = [](const std::string& a, const std::string& b) {
    return "{" + tensor_text("a", "F32", "[1]", a) + "," + tensor_text("b", "F32", "[1]", b) + "}";
  };
  EXPECT_NO_THROW(open(file_of(two("[4,8]", "[0,4]"), "12345678")));
  refuse_header(two("[0,4]", "[0,4]"), "12345678", {"overlaps"});
  refuse_header(two("[0,4]", "[2,6]"), "123456", {"tensor b", "overlaps"});
  refuse_header(two("[0,4]", "[5,9]"), "123456789", {"tensor b", "gap of 1 bytes"});
  refuse_header(two("[1,5]", "[5,9]"), "123456789", {"tensor a", "gap of 1 bytes"});
  refuse_header(two("[0,4]", "[4,8]"), "1234567", {"tensor b", "beyond the 7 bytes"});
  refuse_header(two("[0,4]", "[4,8]"), "123456789", {"1 bytes at the end"});
  refuse_header("{}", "1", {"1 bytes at the end"});
}

std::string valid_file() {
  return file_of("{\"__metadata__\":{\"format\":\"pt\"}," + tensor_text("wte.weight", "F32", "[2,3]", "[0,24]") + "," +
                     tensor_text("b", "BF16", "[4]", "[24,32]") + "," + tensor_text("m", "U8", "[1,1,2]", "[32,34]") +
                     "}",
                 std::string(34, 'd'));
}

TEST_F(Safetensors, RefusesTheFileCutAtEveryByte) {
  const std::string whole = valid_file();
  EXPECT_NO_THROW(open(whole));
  const std::string path = folder_.path("t.safetensors");
  for (std::size_t num_bytes = whole.size(); num_bytes-- > 0;) {
    std::filesystem::resize_file(path, num_bytes);
    expect_error([&] { SafetensorsFile file(path); }, {"t.safetensors"});
  }
}

// Random changes to length and header: the file opens with all its ranges inside it, or is refused.
TEST_F(Safetensors, RandomChangesNeverDoMoreThanThrow) {
  constexpr std::size_t kDataBytes = 34;
  constexpr std::string_view kLikely = "{}[]\",:0123456789-.eFU\\";
  const std::string whole = valid_file();
  const std::string path = folder_.write("t.safetensors", whole);
  std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);  // in place: much faster than new files
  std::mt19937 random(1);
  int num_refused = 0, num_opened = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = whole;
    for (uint32_t flips = 1 + random() % 3; flips > 0; --flips) {
      const char any = static_cast<char>(random());
      bytes[random() % (whole.size() - kDataBytes)] = random() % 2 ? any : kLikely[random() % kLikely.size()];
    }
    out.seekp(0) << bytes << std::flush;
    try {
      const SafetensorsFile file(path);
      for (const auto& entry : file.header().tensors) {
        if (entry.second.dtype == "F32" || entry.second.dtype == "BF16")
          read(file, entry.first, 0, entry.second.num_elements);
      }
      ++num_opened;
    } catch (const Error&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 10'000);
  EXPECT_GT(num_opened, 100);
}

TEST_F(Safetensors, ReportsAFileCutWhileOpen) {
  const std::string path = folder_.write("t.safetensors", valid_file());
  const SafetensorsFile file(path);
  std::filesystem::resize_file(path, valid_file().size() - 20);
  expect_error([&] { read(file, "wte.weight", 0, 6); }, {"t.safetensors", "cut"});
}

TEST_F(Safetensors, WriterRoundTrips) {
  const std::vector<SafetensorsEntry> entries = {
      {"h.0.b", "F16", {3}}, {"z", "F32", {2, 2}}, {"step", "I64", {}}, {"empty", "F32", {0}}, {"a", "F32", {1}}};
  SafetensorsWriter writer(folder_.path("out.safetensors"), entries, {{"format", "pt"}, {"note", "\"quoted\""}});
  const std::array<float, 4> z = {1, 2, 3, 4};
  const std::array<uint16_t, 3> halves = {0x3c00, 0x4000, 0x4200};
  const std::array<int64_t, 1> step = {77};
  writer.write("h.0.b", 0, std::as_bytes(std::span(halves)));
  writer.write("z", 2, std::as_bytes(std::span(z).subspan(2)));
  writer.write("z", 0, std::as_bytes(std::span(z).first(2)));
  writer.write("step", 0, std::as_bytes(std::span(step)));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("out.safetensors"))) << "visible before commit";
  writer.commit();

  const SafetensorsFile file(folder_.path("out.safetensors"));
  EXPECT_EQ(read(file, "z", 0, 4), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(read(file, "h.0.b", 0, 3), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(read(file, "a", 0, 1), std::vector<float>{0}) << "what is never written is zero";
  EXPECT_EQ(file.header().metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"note", "\"quoted\""}}));
  EXPECT_EQ(file.tensor("step").data_offset, 0u) << "widest elements first";
  const std::string bytes = file_bytes(folder_.path("out.safetensors"));
  uint64_t num_header_bytes = 0;
  std::memcpy(&num_header_bytes, bytes.data(), 8);
  EXPECT_EQ(num_header_bytes % 8, 0u);
  EXPECT_EQ(bytes.substr(8 + num_header_bytes, 8), raw_bytes(step));
}

TEST_F(Safetensors, WriterAlignsTheData) {
  const std::string path = folder_.path("out.safetensors");
  for (size_t length = 1; length <= 8; ++length) {
    const std::vector<SafetensorsEntry> entries = {{std::string(length, 'a'), "F64", {1}}};
    SafetensorsWriter(path, entries, {}).commit();
    EXPECT_EQ(SafetensorsFile(path).data_begin() % 8, 0u) << length;
  }
}

TEST_F(Safetensors, WriterWithoutCommitLeavesTheOldFile) {
  const std::string path = folder_.write("out.safetensors", "old");
  const std::vector<SafetensorsEntry> entries = {{"a", "F32", {1}}};
  { const SafetensorsWriter writer(path, entries, {}); }
  EXPECT_EQ(file_bytes(path), "old");
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST_F(Safetensors, WriterRefusesWhatCannotBe) {
  const std::string path = folder_.path("out.safetensors");
  const auto make = [&](std::vector<SafetensorsEntry> entries) { SafetensorsWriter writer(path, entries, {}); };
  expect_error([&] { make({{"a", "F32", {1}}, {"a", "F64", {1}}}); }, {"tensor a", "twice"});
  expect_error([&] { make({{"a", "F33", {1}}}); }, {"tensor a", "F33"});
  expect_error([&] { make({{"a", "F32", {uint64_t{1} << 62}}}); }, {"tensor a", "too large"});
  expect_error([&] { make({{"a", "U8", {~uint64_t{0}}}, {"b", "U8", {2}}}); }, {"too large"});
  expect_error([&] { make({{"__metadata__", "F32", {1}}}); }, {"__metadata__"});
  expect_error([&] { make({{"\xff", "F32", {1}}}); }, {"out.safetensors"});
  expect_error([&] { SafetensorsWriter(folder_.path("absent/out"), {}, {}); }, {"absent/out", "No such file"});

  const std::vector<SafetensorsEntry> entries = {{"a", "F32", {2}}};
  SafetensorsWriter writer(path, entries, {});
  const std::array<std::byte, 12> bytes{};
  expect_error([&] { writer.write("b", 0, {}); }, {"without a tensor b"});
  expect_error([&] { writer.write("a", 0, bytes); }, {"12 bytes at element 0", "tensor a"});
  expect_error([&] { writer.write("a", 1, std::span(bytes).first(8)); }, {"8 bytes at element 1"});
  expect_error([&] { writer.write("a", 0, std::span(bytes).first(3)); }, {"3 bytes"});
  expect_error([&] { writer.write("a", ~uint64_t{0}, std::span(bytes).first(4)); }, {"tensor a"});
}

}  // namespace
}  // namespace tessera::host
