// The words that a program's text is made of: names, numbers, slots.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.h"
#include "tessera/error.hpp"

namespace tessera::host {

/// Letters, digits and ". _ - / : + @": what is written as it is, and as part of a longer word.
bool is_plain_word(std::string_view text);
/// In quotes, with \" \\ \n for what needs escaping.
std::string quoted(std::string_view text);
inline std::string quoted_unless_plain(std::string_view text) {
  return is_plain_word(text) ? std::string(text) : quoted(text);
}
/// Undoes quoted(); text without quotes is itself. Throws INVALID_ARGUMENT for quotes that do not end.
std::string unquoted(std::string_view word);
/// Cuts a line at blanks outside quotes. Borrows the line.
std::vector<std::string_view> words_of(std::string_view line);

/// The shortest text that reads back to the same number.
std::string number_text(double number);

/// The whole of `text` as a number; throws INVALID_ARGUMENT that calls it `what`.
template <class Number>
Number number_from(std::string_view text, const char* what) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    throw Error(TSR_E_INVALID_ARGUMENT, "'" + std::string(text) + "' is no " + what);
  return number;
}

/// Slots as the segments of a model call them: "p:c_attn.weight", "do:x.1", "s:0", "src", "src:1", "x:clip", "st:m".
/// A parameter goes without its unit's name in front, a value without that of the segment's block ("h.0" of
/// "h.0.qkv"). A name that is not plain, or not the only one of its kind in the segment, is replaced by the index.
class SlotNames {
 public:
  explicit SlotNames(const Model& model);

  /// `segment` -1: the action has none. Throws INVALID_ARGUMENT for a role that does not exist.
  std::string name(int segment, uint32_t slot) const;
  /// Throws INVALID_ARGUMENT with the names there are.
  uint32_t slot(int segment, std::string_view name) const;

 private:
  using Names = std::vector<std::string>;  // by index; "" where the index is the name
  struct SegmentNames {
    Names parameters, inputs, outputs;
  };
  const Names& names(int segment, uint32_t role) const;

  std::vector<SegmentNames> segments_;
};

}  // namespace tessera::host
