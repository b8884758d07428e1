// The pattern is that of GPT-2 (Radford et al. 2019), with Unicode's classes by PCRE2:
//
//     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// White space is Unicode's White_Space, as in the `tokenizers` package, and is written out: PCRE2's \s also has U+180E.
// Of several spaces before a word the last belongs to the word: that is the look-ahead.
//
// No match looks back, and none but those of white space beyond its end. So text is cut without changing a word where
// an ASCII space follows a visible ASCII character, and each piece is matched alone: what PCRE2 keeps for a match then
// does not grow with the text.

#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/concat.h"
#include "tessera/error.hpp"
#include "text/utf8.h"

namespace tessera::host {
namespace {

#define WHITE_SPACE R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})"
constexpr char kPattern[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+)"
                            "| ?[^" WHITE_SPACE R"(\p{L}\p{N}]+)"
                            "|[" WHITE_SPACE "]+(?![^" WHITE_SPACE "])|[" WHITE_SPACE "]+";
#undef WHITE_SPACE
constexpr size_t kPieceBytes = size_t{1} << 20;

[[noreturn]] void fail(int code) {
  char message[256] = {};
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof message);
  throw Error(TSR_E_INTERNAL, concat("text could not be cut into words: PCRE2: ", message));
}

bool is_visible(char c) {
  return c > ' ' && c <= '~';
}

/// Bytes of `text` to match alone: all, or up to the last place in the first piece where it can be cut.
size_t piece_of(std::string_view text) {
  for (size_t end = kPieceBytes; end < text.size(); end += kPieceBytes)
    for (size_t cut = end; cut > end - kPieceBytes + 1; --cut)
      if (text[cut] == ' ' && is_visible(text[cut - 1])) return cut;
  return text.size();
}

}  // namespace

struct PreTokenizer::Pattern {
  pcre2_code* code = nullptr;
  pcre2_match_data* match = nullptr;

  Pattern() {
    int error = 0;
    PCRE2_SIZE at = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kPattern), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error,
                         &at, nullptr);
    if (!code) fail(error);
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it, the same matches at a tenth of the speed
    match = pcre2_match_data_create_from_pattern(code, nullptr);
    if (!match) throw std::bad_alloc();
  }
  ~Pattern() {
    pcre2_match_data_free(match);
    pcre2_code_free(code);
  }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  /// Bytes of the word that begins at `begin`; every character begins one.
  size_t word_at(std::string_view text, size_t begin) const {
    const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), begin,
                                  PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, match, nullptr);
    if (found < 0) fail(found);
    return pcre2_get_ovector_pointer(match)[1] - begin;
  }
};

PreTokenizer::PreTokenizer() : pattern_(std::make_unique<Pattern>()) {}
PreTokenizer::~PreTokenizer() = default;

void PreTokenizer::split_valid(std::string_view text, const std::function<void(std::string_view)>& take) const {
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, piece_of(text));
    for (size_t begin = 0; begin < piece.size();) {
      const size_t num_bytes = pattern_->word_at(piece, begin);
      take(piece.substr(begin, num_bytes));
      begin += num_bytes;
    }
    text.remove_prefix(piece.size());
  }
}

void PreTokenizer::split(std::string_view text, const std::function<void(std::string_view)>& take) const {
  while (!text.empty()) {
    const size_t num_valid = valid_utf8_bytes(text);
    split_valid(text.substr(0, num_valid), take);
    text.remove_prefix(num_valid);
    const size_t num_invalid = invalid_utf8_bytes(text);
    if (num_invalid > 0) take(text.substr(0, num_invalid));
    text.remove_prefix(num_invalid);
  }
}

}  // namespace tessera::host
