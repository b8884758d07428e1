// One line of a program's text, read from the left. All functions throw INVALID_ARGUMENT that says what was expected.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "program/text_words.h"

namespace tessera::host {

[[noreturn]] inline void fail_text(const std::string& what) {
  throw Error(TSR_E_INVALID_ARGUMENT, what);
}

inline std::string in_quotes(std::string_view text) {
  return std::string("'").append(text).append("'");
}

/// "mb=3" -> "mb", "3".
inline std::pair<std::string_view, std::string_view> key_and_value(std::string_view word) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos) fail_text(in_quotes(word) + " is no attribute: expected <key>=<value>");
  return {word.substr(0, equals), word.substr(equals + 1)};
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
inline int index_from(std::string_view text, const char* what) {
  const int number = number_from<int>(text, what);
  if (number < 0) fail_text(in_quotes(text) + " is no " + what);
  return number;
}

inline tsr_dtype dtype_from(std::string_view text) {
  const tsr_dtype dtype = dtype_from_name(text);
  if (dtype == 0) fail_text(in_quotes(text) + " is no dtype");
  return dtype;
}

/// Borrows the text.
class Line {
 public:
  explicit Line(std::string_view text) : words_(words_of(text)) {}

  bool empty() const { return next_ == words_.size(); }
  std::string_view peek() const { return empty() ? std::string_view() : words_[next_]; }
  std::string_view take(const std::string& expected) {
    if (empty()) fail_text("the line ends where " + expected + " was expected");
    return words_[next_++];
  }
  void take_exactly(std::string_view word) {
    const std::string_view found = take(in_quotes(word));
    if (found != word) fail_text(in_quotes(found) + " stands where " + in_quotes(word) + " was expected");
  }
  /// The value of "key=value".
  std::string_view take_value(std::string_view key) {
    const auto [found, value] = key_and_value(take(in_quotes(key)));
    if (found != key) fail_text(in_quotes(found) + " stands where " + in_quotes(key) + " was expected");
    return value;
  }
  void expect_end() const {
    if (!empty()) fail_text(in_quotes(peek()) + " stands where the end of the line was expected");
  }

 private:
  std::vector<std::string_view> words_;
  size_t next_ = 0;
};

}  // namespace tessera::host
