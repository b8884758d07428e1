// Text is cut at special tokens, what is between them into words, and each word into tokens:
//
//     "The cat<|endoftext|>"  ->  "The cat", <|endoftext|>  ->  "The", " cat", <|endoftext|>  ->  464, 3797, 50256
//
// Every token is some bytes, so the text of tokens is these bytes one after another.

#include "text/tokenizer.h"

#include <algorithm>
#include <array>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

std::array<int32_t, 256> tokens_of_bytes(const TokenizerData& data) {
  std::array<int32_t, 256> of_byte;
  of_byte.fill(-1);
  for (size_t token = 0; token < data.tokens.size(); ++token)
    if (data.tokens[token].size() == 1)
      of_byte[static_cast<unsigned char>(data.tokens[token][0])] = static_cast<int32_t>(token);
  return of_byte;
}

struct Found {
  size_t begin = std::string_view::npos;
  int32_t token = -1;
};

}  // namespace

Tokenizer::Tokenizer(TokenizerData data) : data_(std::move(data)), bpe_(tokens_of_bytes(data_), data_.merges) {
  // The longest first, so that of several at one place the first found is taken.
  std::ranges::stable_sort(data_.special, std::greater<>(), [this](int32_t token) { return bytes_of(token).size(); });
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  // Each special token is searched for once up to its next place, not again for every one that is found before it.
  std::vector<size_t> next(data_.special.size(), 0);  // of each special token, its next place in the text
  for (size_t done = 0;;) {
    Found first;
    for (size_t i = 0; i < next.size(); ++i) {
      if (next[i] != text.npos && next[i] <= done) next[i] = text.find(bytes_of(data_.special[i]), done);
      if (next[i] < first.begin) first = {next[i], data_.special[i]};
    }
    words_.split(text.substr(done, first.begin - done), [&](std::string_view word) { bpe_.encode(word, tokens); });
    if (first.token < 0) return tokens;
    tokens.push_back(first.token);
    done = first.begin + bytes_of(first.token).size();
  }
}

const std::string& Tokenizer::bytes_of(int32_t token) const {
  if (token < 0 || token >= num_tokens() || data_.tokens[static_cast<size_t>(token)].empty())
    throw Error(TSR_E_INVALID_ARGUMENT, concat(data_.source, " has no token ", token));
  return data_.tokens[static_cast<size_t>(token)];
}

}  // namespace tessera::host
