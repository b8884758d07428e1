// Protobuf by hand: a field is its key (number << 3 | wire type) and its value; a message within another is bytes with
// their length before them. The loss 0.5 of step 3 is the message
//
//     09 ........              1: wall_time, fixed64
//     10 03                    2: step, varint
//     2a 13                    5: Summary, 19 bytes
//       0a 11                    1: Value, 17 bytes
//         0a 0a train/loss         1: tag, 10 bytes
//         15 00 00 00 3f           2: simple_value, fixed32
//
// A checksum is masked (rotated, plus a constant) as in LevelDB's logs, whose records may hold checksums themselves.

#include "record/event_file.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <filesystem>

#include "base/concat.h"
#include "storage/block_sums.h"

namespace tessera::host {
namespace {

// Protobuf's wire types.
constexpr uint64_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;
constexpr uint64_t kSessionStart = 1;  // SessionLog.START

template <class T>
std::string fixed(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof value; ++i)
    bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

std::string varint(uint64_t value) {
  std::string bytes;
  // Seven bits in each byte, the lowest first; the high bit: more follow.
  for (; value >= 128; value >>= 7)
    bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}

std::string key(uint64_t field, uint64_t wire_type) {
  return varint(field << 3 | wire_type);
}

std::string number_field(uint64_t field, uint64_t value) {
  return key(field, kVarint) + varint(value);
}
std::string double_field(uint64_t field, double value) {
  return key(field, kFixed64) + fixed(std::bit_cast<uint64_t>(value));
}
std::string float_field(uint64_t field, float value) {
  return key(field, kFixed32) + fixed(std::bit_cast<uint32_t>(value));
}
std::string bytes_field(uint64_t field, std::string_view bytes) {
  return concat(key(field, kBytes), varint(bytes.size()), bytes);
}

std::string masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return fixed(std::rotr(crc, 15) + 0xa282ead8u);
}

std::string record(const std::string& message) {
  const std::string length = fixed(static_cast<uint64_t>(message.size()));
  return length + masked_crc(length) + message + masked_crc(message);
}

std::string event(double wall_time, int64_t step, const std::string& what) {
  return record(double_field(1, wall_time) + number_field(2, static_cast<uint64_t>(step)) + what);
}

/// The seconds in the name of an event file; 0 for another name.
int64_t seconds_of(const std::string& name) {
  int64_t seconds = 0;
  if (name.starts_with(kEventFilePrefix))
    std::from_chars(name.data() + kEventFilePrefix.size(), name.data() + name.size(), seconds);
  return seconds;
}

}  // namespace

std::string version_event(double wall_time) {
  return event(wall_time, 0, bytes_field(3, "brain.Event:2"));
}

std::string start_event(double wall_time, int64_t step) {
  return event(wall_time, step, bytes_field(7, number_field(1, kSessionStart)));
}

std::string scalars_event(double wall_time, int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars)
    summary += bytes_field(1, bytes_field(1, scalar.tag) + float_field(2, static_cast<float>(scalar.value)));
  return event(wall_time, step, bytes_field(5, summary));
}

std::string new_event_file_name(const std::string& folder, double wall_time) {
  auto seconds = static_cast<int64_t>(wall_time);
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable))
    seconds = std::max(seconds, seconds_of(entry.path().filename()) + 1);
  return concat(kEventFilePrefix, seconds, ".", host_name(), ".", ::getpid(), ".0");
}

}  // namespace tessera::host
