// Makes text from outside safe to print: paths, names in files and plugins' messages may hold control characters,
// terminal escape sequences or characters that reverse the direction of a line. Text is escaped where it leaves the
// program, not where it enters (decision 0024). Invalid UTF-8 is shown byte by byte.

#include "base/concat.h"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>

namespace tessera::host {
namespace {

/// The UTF-8 character at the start of a text; num_bytes is 0 when it is invalid.
struct Utf8Char {
  size_t num_bytes = 0;
  uint32_t code = 0;
};

Utf8Char first_char(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {1, byte(0)};
  const size_t n = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  // 0xc0 and 0xc1 begin overlong forms of ASCII; bytes above 0xf4 begin no code point.
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || n > text.size()) return {};
  uint32_t code = byte(0) & (0xffu >> (n + 1));
  for (size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  return code < kLeast[n] || code > 0x10ffff || is_surrogate ? Utf8Char{} : Utf8Char{n, code};
}

/// False for control characters (also those above ASCII) and for separators and direction marks that change the look of
/// a line.
/// U+200E, 200F: direction; 2028, 2029: ends of lines; 202A to 202E, 2066 to 2069: embeddings and isolates.
bool may_be_shown(uint32_t code) {
  const auto is_in = [code](uint32_t first, uint32_t last) { return code >= first && code <= last; };
  return code >= 0x20 && !is_in(0x7f, 0x9f) && !is_in(0x200e, 0x200f) && !is_in(0x2028, 0x202e) &&
         !is_in(0x2066, 0x2069);
}

void append_escaped(std::string& to, char c) {
  constexpr char kDigits[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  to += '\\';
  if (c == '\n' || c == '\r' || c == '\t')
    to += c == '\n' ? 'n' : c == '\r' ? 'r' : 't';
  else
    to.append({'x', kDigits[byte >> 4], kDigits[byte & 15]});
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char c = first_char(text);
    const size_t num_bytes = c.num_bytes ? c.num_bytes : 1;
    // A newline before two blanks belongs to one of our lists; no log line looks like it.
    if ((c.num_bytes && may_be_shown(c.code)) || text.starts_with("\n  "))
      shown += text.substr(0, num_bytes);
    else
      for (const char byte : text.substr(0, num_bytes))
        append_escaped(shown, byte);
    text.remove_prefix(num_bytes);
  }
  return shown;
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return std::string(word);
  std::string quoted = "'";
  for (const char c : word)
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string escaped_markup(std::string_view text) {
  std::string result;
  for (const char c : text)
    switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  return result;
}

std::string human_bytes(uint64_t num_bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(num_bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit)
    value /= 1024;
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), unit ? "%.1f %s" : "%.0f %s", value, kUnits[unit]);
  return text.data();
}

std::string duration_text(double seconds) {
  if (seconds < 59.95) {
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), "%.1f s", seconds);
    return text.data();
  }
  struct Unit {
    int64_t seconds;
    const char *name, *part;
    int64_t part_seconds;
  };
  constexpr Unit kUnits[] = {{86400, " d ", " h", 3600}, {3600, " h ", " min", 60}, {60, " min ", " s", 1}};
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  for (const Unit& unit : kUnits)
    if (whole >= unit.seconds)
      return concat(whole / unit.seconds, unit.name, whole % unit.seconds / unit.part_seconds, unit.part);
  return concat(whole, " s");
}

std::string rank_list(std::span<const int> ranks) {
  constexpr int kMaxRuns = 8;
  std::string text;
  int num_runs = 0;
  for (size_t first = 0, last; first < ranks.size(); first = last + 1) {
    if (++num_runs > kMaxRuns) return concat(text, ", ... (", ranks.size(), " ranks)");
    for (last = first; last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1;)
      ++last;
    if (last == first + 1) last = first;  // "4, 5" is shorter than "4 to 5"
    text += concat(text.empty() ? "" : ", ", ranks[first]);
    if (last > first) text += concat(" to ", ranks[last]);
  }
  return text;
}

std::string ranks_text(std::span<const int> ranks) {
  return (ranks.size() > 1 ? "ranks " : "rank ") + rank_list(ranks);
}

std::string host_name() {
  std::array<char, 256> name{};  // gethostname may cut a longer name without a terminating zero
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string process_text(int64_t pid, std::string_view host) {
  return concat("process ", pid, host.empty() ? "" : " on ", host);
}

}  // namespace tessera::host
