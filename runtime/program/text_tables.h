// What printing and parsing a program's text share besides its words.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "program/program.h"
#include "program/text_words.h"

namespace tessera::host {

struct TextName {
  uint32_t number;
  std::string_view text;
};

inline constexpr TextName kPurposeNames[] = {
    {TSR_PURPOSE_INIT, "init"}, {TSR_PURPOSE_STEP, "step"}, {TSR_PURPOSE_EVAL, "eval"}};
inline constexpr TextName kReduceEveryNames[] = {{TSR_EVERY_STEP, "step"}, {TSR_EVERY_MICRO_BATCH, "micro-batch"}};
inline constexpr TextName kOptimizerNames[] = {{TSR_OP_ADAMW, "adamw"}, {TSR_OP_SGD, "sgd"}};
inline constexpr TextName kReduceNames[] = {
    {TSR_REDUCE_SUM, "sum"}, {TSR_REDUCE_AVG, "avg"}, {TSR_REDUCE_MIN, "min"}, {TSR_REDUCE_MAX, "max"}};
inline constexpr TextName kModeNames[] = {{TSR_MODE_READ, "r"}, {TSR_MODE_WRITE, "w"}, {TSR_MODE_ADD, "a"}};

inline constexpr std::string_view kPersistentWord = "persistent";
inline constexpr std::string_view kHostWord = "host";
inline constexpr std::string_view kPredicatedWord = "predicated";

template <size_t N>
std::string_view text_of(const TextName (&names)[N], uint32_t number, const char* what) {
  const auto found = std::ranges::find(names, number, &TextName::number);
  if (found == std::end(names))
    throw Error(TSR_E_INVALID_ARGUMENT, std::string("there is no ") + what + " " + std::to_string(number));
  return found->text;
}

template <size_t N>
uint32_t number_of(const TextName (&names)[N], std::string_view text, const char* what) {
  const auto found = std::ranges::find(names, text, &TextName::text);
  if (found != std::end(names)) return found->number;
  std::string expected;
  for (const TextName& name : names)
    expected += (expected.empty() ? "" : ", ") + std::string(name.text);
  throw Error(TSR_E_INVALID_ARGUMENT, "'" + std::string(text) + "' is no " + what + ": expected one of " + expected);
}

/// The name of Action::peer in the text.
inline std::string_view peer_key(uint32_t kind) {
  return kind == TSR_ACTION_BROADCAST || kind == TSR_ACTION_REDUCE ? "root" : "peer";
}

/// Words with single blanks between them, none of which could be taken for a mark.
inline bool is_plain_buffer_name(std::string_view name) {
  for (size_t begin = 0;;) {
    const size_t end = std::min(name.find(' ', begin), name.size());
    const std::string_view word = name.substr(begin, end - begin), key = word.substr(0, word.find('='));
    if (!is_plain_word(key) || word == kPersistentWord || word == kHostWord) return false;
    if (key.size() != word.size() && !is_plain_word(word.substr(key.size() + 1))) return false;
    if (end == name.size()) return true;
    begin = end + 1;
  }
}

/// A name as it is written where a word of an action is expected.
inline std::string segment_word(std::string_view name) {
  const bool is_mark = name == "r" || name == "w" || name == "a" || name == kPredicatedWord;
  return is_mark ? host::quoted(name) : quoted_unless_plain(name);
}

}  // namespace tessera::host
