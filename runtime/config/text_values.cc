// Numbers of flags and environment variables. from_chars must consume the whole text and ignores the locale: "1,5",
// "+1", " 1" and "1e" are refused everywhere. Printed numbers (shortest) read back to the same bits, because ranks
// compare settings as text.

#include "config/text_values.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <type_traits>

#include "base/concat.h"
#include "config/help/did_you_mean.h"
#include "config/usage_error.h"

namespace tessera::host {
namespace {

template <class T>
std::errc parse_all(std::string_view text, T& value) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end != text.data() + text.size() ? std::errc::invalid_argument : status;
}

template <class T>
std::string number_text(T value) {
  if constexpr (std::is_floating_point_v<T>) return shortest(value);
  return std::to_string(value);
}

/// Limits of the type itself are shown only for a value beyond them.
template <class T>
std::string range_text(T min, T max, bool is_beyond_type) {
  const bool open_below = min == std::numeric_limits<T>::lowest() && !is_beyond_type;
  const bool open_above = max == std::numeric_limits<T>::max() && !is_beyond_type;
  if (open_below && open_above) return "";
  if (open_above) return concat(" of at least ", number_text(min));
  if (open_below) return concat(" of at most ", number_text(max));
  // The largest number below 1 is a limit that users should not have to read.
  if (std::is_floating_point_v<T> && max < T{1} && max == std::nexttoward(T{1}, 0.0L))
    return concat(" of at least ", number_text(min), " and below 1");
  return concat(" from ", number_text(min), " to ", number_text(max));
}

struct ByteUnit {
  std::string_view name;
  uint64_t num_bytes;
};
constexpr uint64_t kThousand = 1000;
// 1.5GB is read as 1,500,000,000 and printed as 1500MB, 1GiB as 1GiB.
// Largest first, and binary before decimal units: print_bytes takes the first that divides, parse_bytes the first
// suffix.
constexpr ByteUnit kByteUnits[] = {{"TiB", uint64_t{1} << 40},
                                   {"GiB", uint64_t{1} << 30},
                                   {"MiB", uint64_t{1} << 20},
                                   {"KiB", uint64_t{1} << 10},
                                   {"TB", kThousand* kThousand* kThousand* kThousand},
                                   {"GB", kThousand* kThousand* kThousand},
                                   {"MB", kThousand* kThousand},
                                   {"kB", kThousand},
                                   {"KB", kThousand},
                                   {"B", 1}};

}  // namespace

int64_t parse_integer(std::string_view flag, std::string_view text, int64_t min, int64_t max) {
  int64_t value = 0;
  const std::errc status = parse_all(text, value);
  if (status != std::errc() || value < min || value > max)
    throw UsageError(concat("--", flag, " is '", text, "'; give a whole number",
                            range_text(min, max, status == std::errc::result_out_of_range)));
  return value;
}

int64_t parse_environment_integer(std::string_view variable, std::string_view text) {
  int64_t value = 0;
  if (parse_all(text, value) != std::errc() || value < 0 || value > std::numeric_limits<int32_t>::max())
    throw UsageError(concat("the environment variable ", variable, " is '", text,
                            "'; set it to a whole number from 0 to ", std::numeric_limits<int32_t>::max()));
  return value;
}

double parse_number(std::string_view flag, std::string_view text, double min, double max) {
  double value = 0;
  const std::errc status = parse_all(text, value);
  if (status != std::errc() || !std::isfinite(value) || value < min || value > max)
    throw UsageError(concat("--", flag, " is '", text, "'; give a number",
                            range_text(min, max, status == std::errc::result_out_of_range)));
  return value;
}

uint64_t parse_bytes(std::string_view flag, std::string_view text) {
  std::string_view number = text;
  double scale = 1, value = 0;
  for (const ByteUnit& unit : kByteUnits)
    if (text.ends_with(unit.name)) {
      number.remove_suffix(unit.name.size());
      scale = static_cast<double>(unit.num_bytes);
      break;
    }
  const double num_bytes = parse_all(number, value) == std::errc() ? value * scale : -1;
  // 10^18 bytes are more than any machine has, and fit a signed integer too.
  // Written so that NaN is refused as well.
  if (!(num_bytes >= 1 && num_bytes < 1e18) || (scale == 1 && num_bytes != std::floor(num_bytes)))
    throw UsageError(concat("--", flag, " is '", text, "'; give a number of bytes, such as 2GiB, 512MiB or 1.5GB"));
  return static_cast<uint64_t>(num_bytes);
}

std::string print_bytes(uint64_t num_bytes) {
  for (const ByteUnit& unit : kByteUnits)
    if (num_bytes % unit.num_bytes == 0) return concat(num_bytes / unit.num_bytes, unit.name);
  return std::to_string(num_bytes);
}

bool parse_bool(std::string_view flag, std::string_view text) {
  return parse_choice(flag, text, "false|true") == 1;
}

void require_no_tilde(std::string_view name, std::string_view path) {
  if (path != "~" && !path.starts_with("~/")) return;
  const char* home = std::getenv("HOME");
  throw UsageError(concat(name, " is '", path, "', in which no shell has replaced ~ by the home folder; give ",
                          home && *home ? home + std::string(path.substr(1)) : "the whole path", ", or ./", path,
                          " for a folder named ~"));
}

size_t parse_choice(std::string_view flag, std::string_view text, std::string_view choices) {
  const auto names = split(choices, '|');
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return i;
  std::vector<std::string> known(names.begin(), names.end());
  const std::string near = nearest_choice(text, known);
  throw UsageError(concat("--", flag, " is '", text, "'; give one of ", choices,
                          near.empty() ? "" : concat(" (did you mean ", near, "?)")));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string print_list(const std::vector<std::string>& items) {
  std::string printed;
  for (const std::string& item : items)
    printed += (printed.empty() ? "" : ",") + item;
  return printed;
}

std::string shortest(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

}  // namespace tessera::host
