// One line of a program's text, read from the left, and its words. All functions throw INVALID_ARGUMENT with what was
// expected.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "program/text_words.h"
#include "tessera/error.hpp"

namespace tessera::testing {
using namespace host;

[[noreturn]] inline void fail_text(const std::string& what) {
  throw Error(TSR_E_INVALID_ARGUMENT, what);
}

inline std::string in_quotes(std::string_view text) {
  return std::string("'").append(text).append("'");
}

/// Undoes quote(); text without quotes is itself.
std::string unquoted(std::string_view word);

/// "mb=3" -> "mb", "3".
std::pair<std::string_view, std::string_view> key_and_value(std::string_view word);

/// The whole of `text` as a number; the error calls it `what`.
template <class Number>
Number number_from(std::string_view text, const char* what) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    fail_text(in_quotes(text) + " is not a valid " + what);
  return number;
}

/// "0,3" -> 0, 3.
template <class Number>
std::vector<Number> numbers_from(std::string_view text, const char* what) {
  std::vector<Number> result;
  for (;;) {
    const size_t comma = text.find(',');
    result.push_back(number_from<Number>(text.substr(0, comma), what));
    if (comma == std::string_view::npos) return result;
    text.remove_prefix(comma + 1);
  }
}

/// A number that is not negative.
int index_from(std::string_view text, const char* what);

/// The number that print_program writes as `text`.
template <size_t N>
uint32_t number_of(const TextName (&names)[N], std::string_view text, const char* what) {
  std::string expected;
  for (const TextName& name : names) {
    if (name.text == text) return name.number;
    expected += (expected.empty() ? "" : ", ") + std::string(name.text);
  }
  fail_text(in_quotes(text) + " is not a " + what + ": expected one of " + expected);
}

uint32_t action_kind_from(std::string_view name);
uint32_t buffer_kind_from(std::string_view name);
tsr_dtype dtype_from(std::string_view name);

/// The slot that SlotNames calls `name`; the error lists the valid names. `segment` -1: the action has none.
uint32_t slot_from(const SlotNames& slots, int segment, std::string_view name);

/// Words separated by blanks outside quotes. Borrows the text.
class Line {
 public:
  explicit Line(std::string_view text);

  bool empty() const { return next_ == words_.size(); }
  std::string_view peek() const { return empty() ? std::string_view() : words_[next_]; }
  std::string_view take(const std::string& expected);
  void take_exactly(std::string_view word);
  /// The value of "key=value".
  std::string_view take_value(std::string_view key);
  void expect_end() const;

 private:
  std::vector<std::string_view> words_;
  size_t next_ = 0;
};

}  // namespace tessera::testing
