// Live ranges of a program's transient buffers, and which of them interfere: must not share an address.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "memory/footprint.h"
#include "passes/dependencies.h"

namespace tessera::host {

/// A buffer lives from its first to its last binding in list order. Buffers that the host writes before the program
/// (`input`) live from its start, those that the host reads after it (`scalar`, `accumulator`) also to its end.
struct LiveRange {
  const Buffer* buffer = nullptr;
  uint32_t first = 0, last = 0;      ///< actions, inclusive
  std::vector<uint32_t> first_uses;  ///< one action for each stream that uses the buffer
  std::vector<uint32_t> last_uses;
  uint64_t alignment = kBufferAlignment;  ///< of its address: kFileAlignment for what a file is copied from or to
};

/// Those of the transient buffers in that memory that an action binds; ascending by `first`, then by id.
std::vector<LiveRange> live_ranges_in(const Program& program, uint32_t memory);

/// Bytes alive at each action, and at the end of the program, rounded as in an arena.
std::vector<uint64_t> live_bytes(const Program& program, std::span<const LiveRange> live_ranges,
                                 uint64_t guard_bytes = 0);

/// A set of numbers below a limit, which skips what is not in it 64 at a time.
class BitSet {
 public:
  explicit BitSet(size_t limit) : words_((limit + 63) / 64) {}
  void add(uint32_t number) { words_[number / 64] |= uint64_t{1} << number % 64; }
  void clear() { std::ranges::fill(words_, 0); }
  bool contains(uint32_t number) const { return words_[number / 64] >> number % 64 & 1; }

  /// Calls visit(number) for those in [begin, end), ascending.
  template <class Visit>
  void visit(uint32_t begin, uint32_t end, Visit& visit) const {
    for (uint32_t first = begin - begin % 64; first < end; first += 64) {
      uint64_t word = words_[first / 64];
      if (first < begin) word &= ~uint64_t{0} << (begin - first);
      if (end - first < 64) word &= ~(~uint64_t{0} << (end - first));
      for (; word; word &= word - 1)
        visit(first + static_cast<uint32_t>(std::countr_zero(word)));
    }
  }

 private:
  std::vector<uint64_t> words_;
};

/// Finds which of the live ranges added so far interfere with another one. Cost: about linear in the answer.
class Interference {
 public:
  /// Borrows all three.
  Interference(const Program& program, const VectorClocks& clocks, std::span<const LiveRange> live_ranges);

  /// Live ranges are given by index.
  void add(uint32_t live_range);
  /// None is added.
  void clear();

  /// Calls visit(index) for all that are alive together with this one, or that no wait that may be added could order
  /// with it. May visit one twice.
  template <class Visit>
  void unorderable(uint32_t live_range, Visit&& visit) const {
    alive_together(live_range, visit);
    if (addable_.allows_all()) return;
    const auto allows = [this](uint32_t first, uint32_t second) { return addable_.allows(first, second); };
    earlier(live_range, allows, visit);
    later(live_range, allows, visit);
  }

  /// Calls visit(index) for all others that the program, as it is, does not order with this one. May visit one twice,
  /// and some of those that no wait could order.
  template <class Visit>
  void orderable(uint32_t live_range, Visit&& visit) const {
    const auto ordered = [this](uint32_t first, uint32_t second) { return clocks_.ordered(first, second); };
    earlier(live_range, ordered, visit);
    later(live_range, ordered, visit);
  }

 private:
  struct Use {
    uint32_t action, live_range;
  };
  using Uses = std::vector<std::vector<Use>>;  // of each stream, in order

  template <class Visit>
  void alive_together(uint32_t live_range, Visit& visit) const;
  template <class Follows, class Visit>
  void earlier(uint32_t live_range, const Follows& follows, Visit& visit) const;
  template <class Follows, class Visit>
  void later(uint32_t live_range, const Follows& follows, Visit& visit) const;

  const VectorClocks& clocks_;
  const AddableWaits addable_;
  std::span<const LiveRange> live_ranges_;
  BitSet added_;
  std::vector<uint32_t> starts_;  // of each live range: its `first`; separate, as it is read most
  Uses first_uses_, last_uses_;
  std::vector<std::vector<uint32_t>> tree_;  // segment tree over the actions: the live ranges that cover a node
};

template <class Visit>
void Interference::alive_together(uint32_t live_range, Visit& visit) const {
  const LiveRange& self = live_ranges_[live_range];
  for (size_t node = tree_.size() / 2 + self.first; node > 0; node /= 2)
    for (const uint32_t other : tree_[node])
      visit(other);
  const auto later = std::ranges::upper_bound(starts_, self.first) - starts_.begin();
  const auto end = std::ranges::upper_bound(starts_, self.last) - starts_.begin();
  added_.visit(static_cast<uint32_t>(later), static_cast<uint32_t>(end), visit);
}

// Those that are over before this one begins, but for those whose last uses it `follows`. A stream is in order: what
// follows a use follows all uses before it.
template <class Follows, class Visit>
void Interference::earlier(uint32_t live_range, const Follows& follows, Visit& visit) const {
  const LiveRange& self = live_ranges_[live_range];
  const auto is_followed = [&](const Use& use) {
    return std::ranges::all_of(self.first_uses, [&](uint32_t first) { return follows(use.action, first); });
  };
  for (const std::vector<Use>& stream : last_uses_) {
    const auto end = std::ranges::lower_bound(stream, self.first, {}, &Use::action);
    for (auto use = std::partition_point(stream.begin(), end, is_followed); use != end; ++use)
      if (added_.contains(use->live_range)) visit(use->live_range);
  }
}

// Those that begin after this one is over, but for those whose first uses `follow` it.
template <class Follows, class Visit>
void Interference::later(uint32_t live_range, const Follows& follows, Visit& visit) const {
  const LiveRange& self = live_ranges_[live_range];
  const auto is_free = [&](const Use& use) {
    return !std::ranges::all_of(self.last_uses, [&](uint32_t last) { return follows(last, use.action); });
  };
  for (const std::vector<Use>& stream : first_uses_) {
    auto use = std::ranges::upper_bound(stream, self.last, {}, &Use::action);
    const auto end = std::partition_point(use, stream.end(), is_free);
    for (; use != end; ++use)
      if (added_.contains(use->live_range)) visit(use->live_range);
  }
}

}  // namespace tessera::host
