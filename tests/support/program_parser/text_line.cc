// The words of a program's text, read back. The tables of names are those that print_program writes from.

#include "support/program_parser/text_line.h"

#include <algorithm>
#include <map>

namespace tessera::testing {
namespace {

using Numbers = std::map<std::string, uint32_t, std::less<>>;

// The inverse of a function that names kinds; they are below 256, and it throws for numbers without a name.
Numbers numbers_by_name(std::string_view (*name_of)(uint32_t)) {
  Numbers result;
  for (uint32_t number = 0; number < 256; ++number) {
    try {
      result.emplace(name_of(number), number);
    } catch (const Error&) {
      continue;
    }
  }
  return result;
}

uint32_t number_in(const Numbers& numbers, std::string_view name, const char* what) {
  const auto found = numbers.find(name);
  if (found == numbers.end()) fail_text(in_quotes(name) + " is not " + what);
  return found->second;
}

std::string names_text(std::string_view role, const std::vector<std::string>& names) {
  std::string result;
  for (size_t i = 0; i < names.size(); ++i)
    result += (i ? ", " : "") + std::string(role) + ":" + (names[i].empty() ? std::to_string(i) : names[i]);
  return result.empty() ? std::string(role) + ":<index>" : result;
}

[[noreturn]] void fail_at(std::string_view found, const std::string& expected) {
  fail_text("found " + in_quotes(found) + " where " + expected + " was expected");
}

}  // namespace

std::string unquoted(std::string_view word) {
  if (!word.starts_with('"')) return std::string(word);
  std::string result;
  for (size_t i = 1; i < word.size(); ++i) {
    if (word[i] == '"' && i + 1 == word.size()) return result;
    if (word[i] == '"') break;
    if (word[i] == '\\' && ++i < word.size() && word[i] == 'n')
      result += '\n';
    else if (i < word.size())
      result += word[i];
  }
  fail_text("the quotes of " + std::string(word) + " do not end where the word ends");
}

std::pair<std::string_view, std::string_view> key_and_value(std::string_view word) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos) fail_text(in_quotes(word) + " is not an attribute: expected <key>=<value>");
  return {word.substr(0, equals), word.substr(equals + 1)};
}

int index_from(std::string_view text, const char* what) {
  const int number = number_from<int>(text, what);
  if (number < 0) fail_text(in_quotes(text) + " is not a valid " + what);
  return number;
}

uint32_t action_kind_from(std::string_view name) {
  static const Numbers kNumbers = numbers_by_name(action_name);
  return number_in(kNumbers, name, "a kind of action");
}

uint32_t buffer_kind_from(std::string_view name) {
  static const Numbers kNumbers = numbers_by_name(buffer_kind_name);
  return number_in(kNumbers, name, "a kind of buffer");
}

tsr_dtype dtype_from(std::string_view name) {
  for (const tsr_dtype dtype :
       {TSR_I8, TSR_I32, TSR_I64, TSR_U8, TSR_U16, TSR_U32, TSR_F16, TSR_F32, TSR_F64, TSR_BF16})
    if (dtype_name(dtype) == name) return dtype;
  fail_text(in_quotes(name) + " is not a dtype");
}

uint32_t slot_from(const SlotNames& slots, int segment, std::string_view name) {
  const size_t colon = name.find(':');
  const std::string_view role_text = name.substr(0, colon);
  const auto role = static_cast<uint32_t>(std::ranges::find(kSlotRoles, role_text) - std::begin(kSlotRoles));
  if (role_text.empty() || role == std::size(kSlotRoles))
    fail_text(in_quotes(name) + " is not a slot: expected one of p: g: i: o: di: do: s: c: w: src dst x: st:");
  if (colon == std::string_view::npos && (role == TSR_ROLE_SOURCE || role == TSR_ROLE_DESTINATION))
    return TSR_SLOT(role, 0);
  const std::string_view of_role = colon == std::string_view::npos ? "" : name.substr(colon + 1);
  const std::vector<std::string>& known = slots.names(segment, role);
  const auto found = std::ranges::find(known, of_role);
  if (!of_role.empty() && found != known.end()) return TSR_SLOT(role, found - known.begin());
  uint32_t index = 0;
  const auto [end, error] = std::from_chars(of_role.data(), of_role.data() + of_role.size(), index);
  if (of_role.empty() || error != std::errc() || end != of_role.data() + of_role.size() || index > 0xffff)
    fail_text(in_quotes(name) + " is not a slot of the action: expected " + names_text(role_text, known));
  return TSR_SLOT(role, index);
}

Line::Line(std::string_view text) {
  size_t begin = 0;
  bool in_word = false, in_quotes = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_blank = text[i] == ' ' && !in_quotes;
    if (!is_blank && !in_word) begin = i;
    if (is_blank && in_word) words_.push_back(text.substr(begin, i - begin));
    in_word = !is_blank;
    if (in_quotes && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      in_quotes = !in_quotes;
  }
  if (in_word) words_.push_back(text.substr(begin));
}

std::string_view Line::take(const std::string& expected) {
  if (empty()) fail_text("the line ends where " + expected + " was expected");
  return words_[next_++];
}

void Line::take_exactly(std::string_view word) {
  const std::string_view found = take(in_quotes(word));
  if (found != word) fail_at(found, in_quotes(word));
}

std::string_view Line::take_value(std::string_view key) {
  const auto [found, value] = key_and_value(take(in_quotes(key)));
  if (found != key) fail_at(found, in_quotes(key));
  return value;
}

void Line::expect_end() const {
  if (!empty()) fail_at(peek(), "the end of the line");
}

}  // namespace tessera::testing
