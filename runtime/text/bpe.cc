// A word is a linked list of tokens; a heap holds the pairs of neighbors that can be joined, by rank and place.
// Joining one pair makes at most two new ones, so a word of n bytes takes O(n log n), where a search for the earliest
// pair in each round takes O(n^2): a line of 100,000 equal characters is one word. Pairs in the heap whose tokens have
// changed meanwhile are dropped when they come up.

#include "text/bpe.h"

#include <queue>
#include <tuple>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

// Most of a text are words that were seen before. Long ones are rarely seen twice, and would fill the memory.
constexpr size_t kMaxCachedWords = size_t{1} << 16;
constexpr size_t kMaxCachedBytes = 64;  // of a word

struct Symbol {
  int32_t token;  // -1: joined to the one before
  int32_t before, after;
};

struct Pair {
  int32_t rank, left, right;  // places of symbols
  int32_t left_token, right_token, merged;

  bool operator>(const Pair& other) const { return std::tie(rank, left) > std::tie(other.rank, other.left); }
};

uint64_t key_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

Bpe::Bpe(const std::array<int32_t, 256>& of_byte, const std::vector<BpeMerge>& merges) : of_byte_(of_byte) {
  ranks_.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i)
    ranks_.insert({key_of(merges[i].left, merges[i].right), {static_cast<int32_t>(i), merges[i].merged}});
}

const Bpe::Rank* Bpe::find(int32_t left, int32_t right) const {
  const auto found = ranks_.find(key_of(left, right));
  return found == ranks_.end() ? nullptr : &found->second;
}

std::vector<int32_t> Bpe::merge(std::string_view word) const {
  const auto num = static_cast<int32_t>(word.size());
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (of_byte_[byte] < 0)
      throw Error(TSR_E_INVALID_ARGUMENT, concat("the tokenizer has no token for the byte ", int{byte},
                                                 "; give one that was made with all 256 bytes"));
    const auto place = static_cast<int32_t>(symbols.size());
    symbols.push_back({of_byte_[byte], place - 1, place + 1});
  }
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> pairs;
  const auto offer = [&](int32_t left, int32_t right) {
    if (left < 0 || right >= num) return;
    const int32_t a = symbols[left].token, b = symbols[right].token;
    if (const Rank* rank = find(a, b)) pairs.push({rank->rank, left, right, a, b, rank->merged});
  };
  for (int32_t i = 0; i + 1 < num; ++i)
    offer(i, i + 1);
  while (!pairs.empty()) {
    const Pair pair = pairs.top();
    pairs.pop();
    // A pair that was offered before one of its tokens was joined to another is void.
    Symbol &left = symbols[pair.left], &right = symbols[pair.right];
    if (left.token != pair.left_token || right.token != pair.right_token || left.after != pair.right) continue;
    left.token = pair.merged;
    left.after = right.after;
    if (right.after < num) symbols[right.after].before = pair.left;
    right.token = -1;
    offer(left.before, pair.left);
    offer(pair.left, left.after);
  }
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < num; i = symbols[i].after)
    tokens.push_back(symbols[i].token);
  return tokens;
}

void Bpe::encode(std::string_view word, std::vector<int32_t>& tokens) const {
  if (word.empty()) return;
  const std::string key(word);
  auto known = cache_.find(key);
  if (known == cache_.end()) {
    std::vector<int32_t> own = merge(word);
    if (word.size() > kMaxCachedBytes || cache_.size() >= kMaxCachedWords) {
      tokens.insert(tokens.end(), own.begin(), own.end());
      return;
    }
    known = cache_.emplace(key, std::move(own)).first;
  }
  tokens.insert(tokens.end(), known->second.begin(), known->second.end());
}

}  // namespace tessera::host
