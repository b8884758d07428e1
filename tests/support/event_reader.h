// TensorBoard's event files, read apart from the code that writes them: checksums bit by bit, messages field by field.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::testing {

struct ReadEvent {
  double wall_time = 0;
  int64_t step = 0;
  std::string version;
  bool is_start = false;
  std::map<std::string, float> scalars;
};

/// CRC-32C by its definition: reflected, polynomial 0x1edc6f41.
inline uint32_t crc32c_by_bits(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit)
      crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
  }
  return ~crc;
}

class EventReader {
 public:
  /// Throws std::runtime_error for a wrong checksum, a cut record and a message that is not an Event.
  static std::vector<ReadEvent> read(std::string_view file) {
    std::vector<ReadEvent> events;
    while (!file.empty()) {
      const std::string_view length = take(file, 8);
      check_crc(length, take(file, 4));
      const std::string_view message = take(file, number<uint64_t>(length));
      check_crc(message, take(file, 4));
      events.push_back(event(message));
    }
    return events;
  }

 private:
  template <class T>
  static T number(std::string_view bytes) {
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  static std::string_view take(std::string_view& from, uint64_t num_bytes) {
    if (num_bytes > from.size()) throw std::runtime_error("the file ends within a record");
    const std::string_view taken = from.substr(0, num_bytes);
    from.remove_prefix(num_bytes);
    return taken;
  }
  static void check_crc(std::string_view bytes, std::string_view stored) {
    const uint32_t crc = crc32c_by_bits(bytes);
    if ((crc >> 15 | crc << 17) + 0xa282ead8u != number<uint32_t>(stored)) throw std::runtime_error("wrong checksum");
  }
  static uint64_t varint(std::string_view& from) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(from, 1)[0]);
      value |= uint64_t{byte & 127u} << shift;
      if (byte < 128) return value;
    }
  }

  /// A field's number, and its value: a number as its bits, or bytes.
  struct Field {
    uint64_t number = 0, bits = 0;
    std::string_view bytes;
  };
  static Field field(std::string_view& from) {
    const uint64_t key = varint(from);
    Field field{key >> 3, 0, {}};
    switch (key & 7) {
      case 0:
        field.bits = varint(from);
        break;
      case 1:
        field.bits = number<uint64_t>(take(from, 8));
        break;
      case 2:
        field.bytes = take(from, varint(from));
        break;
      case 5:
        field.bits = number<uint32_t>(take(from, 4));
        break;
      default:
        throw std::runtime_error("a wire type that protobuf does not have");
    }
    return field;
  }

  static ReadEvent event(std::string_view message) {
    ReadEvent event;
    while (!message.empty()) {
      const Field f = field(message);
      if (f.number == 1) event.wall_time = std::bit_cast<double>(f.bits);
      if (f.number == 2) event.step = static_cast<int64_t>(f.bits);
      if (f.number == 3) event.version = f.bytes;
      if (f.number == 5) summary(f.bytes, event);
      if (f.number == 7) event.is_start = f.bytes == std::string_view("\x08\x01", 2);
    }
    return event;
  }
  static void summary(std::string_view message, ReadEvent& event) {
    while (!message.empty()) {
      std::string_view value = field(message).bytes;
      std::string tag;
      while (!value.empty()) {
        const Field f = field(value);
        if (f.number == 1) tag = f.bytes;
        if (f.number == 2) event.scalars[tag] = std::bit_cast<float>(static_cast<uint32_t>(f.bits));
      }
    }
  }
};

}  // namespace tessera::testing
