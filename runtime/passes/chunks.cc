// Optimizer state that is away comes back in chunks, and while one is updated the next one is fetched. So the update of
//
//     compute   optimizer home=h.0.ln_1.weight  ...  a %7+0:32 dst        r %61+0:32 src  ...
//     compute   optimizer home=h.0.ln_1.bias    ...  a %7+128:32 dst      r %61+128:32 src  ...
//     ...       twelve homes of one block, which share its buffers
//
// becomes, with chunks of 32 KiB
//
//     compute   optimizer home=h.0/0  ...  a %7+0:8192 dst     r %61+0:8192 src     a %8+0:8192 st:m     ...
//     compute   optimizer home=h.0/1  ...  a %7+8192:5120 dst  r %61+8192:5120 src  a %8+8192:5120 st:m  ...
//
// Homes are joined while the distance to the next one is the same in all roles and no other home begins between them,
// such as one that stays whole; so what is between them is padding, which no piece names and so no update touches. A
// home whose update uses anything but the home's own ranges stays whole. What is joined and cut does not depend on
// pieces: a slice that is all padding has its updates too, or the program of its rank would not be that of the others.
// Cuts are at multiples of 4,096 bytes of the state's buffer, which is what direct I/O wants. Squares are summed where
// the last of the old actions was, when all gradients are complete; updates begin where the first one was. Cost: linear
// in homes, pieces and actions, but for a sort of the homes.

#include "passes/chunks.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tessera::host {
namespace {

constexpr uint64_t kCutElements = 4096 / sizeof(float);

bool is_update(const Action& action) {
  return action.kind == TSR_ACTION_SUM_SQUARES || action.kind == TSR_ACTION_OPTIMIZER;
}

/// Elements from the start of `home` to that of `next` when that is equal in all roles and `next` comes after it in the
/// same buffers; else 0.
uint64_t distance(const Home& home, const Home& next) {
  uint64_t result = 0;
  for (uint32_t role = 0; role < kMaxHomeRoles; ++role) {
    const HomeRole &a = home.roles[role], &b = next.roles[role];
    if (a.buffer != b.buffer) return 0;
    if (!a.buffer) continue;
    if (b.offset < a.offset + home.num_elements) return 0;
    if (result && result != b.offset - a.offset) return 0;
    result = b.offset - a.offset;
  }
  return result;
}

/// Where homes begin: buffer and offset of every role.
using Starts = std::set<std::pair<uint64_t, uint64_t>>;

Starts starts_of(std::span<const Home> homes) {
  Starts starts;
  for (const Home& home : homes)
    for (const auto& [number, role] : home.roles)
      if (role.buffer) starts.emplace(role.buffer, role.offset);
  return starts;
}

/// Whether no other home begins between two, of which `next` comes after `home` in the same buffers.
bool are_neighbors(const Home& home, const Home& next, const Starts& starts) {
  return std::ranges::all_of(home.roles, [&](const auto& entry) {
    const HomeRole &a = entry.second, &b = next.roles[entry.first];
    return a.buffer == 0 || *starts.upper_bound({a.buffer, a.offset}) == std::pair(b.buffer, b.offset);
  });
}

/// Homes that are side by side, as one.
struct Span {
  Home whole;
  std::vector<uint64_t> homes;  // ids
};

void append(Span& span, const Home& home) {
  const uint64_t begin = [&] {
    for (const auto& [number, role] : home.roles)
      if (role.buffer) return role.offset - span.whole.roles[number].offset;
    return uint64_t{0};
  }();
  for (tsr_piece piece : home.pieces) {
    piece.home_offset += begin;
    span.whole.pieces.push_back(piece);
  }
  span.whole.num_elements = begin + home.num_elements;
  span.homes.push_back(home.id);
}

std::vector<Span> join(const Program& program, const std::set<uint64_t>& updated) {
  const Starts starts = starts_of(program.homes);
  std::vector<Span> spans;
  const Home* last = nullptr;
  for (const Home& home : program.homes) {
    if (!updated.contains(home.id)) continue;
    if (last && distance(*last, home) && are_neighbors(*last, home, starts)) {
      append(spans.back(), home);
    } else {
      spans.push_back({home, {home.id}});
    }
    last = &home;
  }
  for (Span& span : spans)
    if (span.homes.size() > 1) span.whole.name = program.model->units[span.whole.unit].name;
  return spans;
}

/// The part [begin, end) of a home.
Home part_of(const Home& whole, uint64_t begin, uint64_t end) {
  Home part{0, whole.name, whole.unit, {}, end - begin, whole.roles};
  for (auto& [number, role] : part.roles)
    if (role.buffer) role = {role.buffer, role.offset + begin, end - begin};
  for (const tsr_piece& piece : whole.pieces) {
    const uint64_t from = std::max(begin, piece.home_offset);
    const uint64_t to = std::min(end, piece.home_offset + piece.num_elements);
    if (from >= to) continue;
    const uint64_t skipped = from - piece.home_offset;
    part.pieces.push_back({piece.parameter, 0, piece.parameter_offset + skipped, to - from, from - begin});
  }
  return part;
}

class Cutter {
 public:
  Cutter(Program& program, uint64_t chunk_bytes)
      : program_(program),
        chunk_elements_(std::max(kCutElements, chunk_bytes / sizeof(float) / kCutElements * kCutElements)) {}

  void run() {
    std::set<uint64_t> updated, others;
    for (const Action& action : program_.actions)
      if (is_update(action)) (uses_home(action) ? updated : others).insert(action.home);
    for (const uint64_t home : others)
      updated.erase(home);
    for (const Span& span : join(program_, updated))
      cut(span);
    replace_homes();
    replace_actions();
  }

 private:
  /// Whether all operands are the home's own ranges. A strategy may bind others, which are not known to be cut alike.
  bool uses_home(const Action& action) const {
    const Home& home = program_.home(action.home);
    return std::ranges::all_of(action.bindings, [&](const Binding& b) {
      return TSR_SLOT_ROLE(b.slot) == TSR_ROLE_SCALAR || std::ranges::any_of(home.roles, [&](const auto& entry) {
               const HomeRole& role = entry.second;
               return role.buffer == b.buffer && role.offset == b.offset && role.num_elements == b.num_elements;
             });
    });
  }

  void cut(const Span& span) {
    std::vector<Home> chunks = chunks_of(span.whole);
    if (chunks.size() == 1 && span.homes.size() == 1) return;
    for (size_t k = 0; k < chunks.size(); ++k) {
      chunks[k].id = program_.next_id++;
      if (chunks.size() > 1) chunks[k].name += "/" + std::to_string(k);
    }
    for (const uint64_t home : span.homes)
      span_of_[home] = chunks_.size();
    chunks_.push_back(std::move(chunks));
  }

  std::vector<Home> chunks_of(const Home& whole) const {
    const HomeRole& m = whole.roles[TSR_HOME_M];
    const uint64_t origin = m.buffer ? m.offset : whole.roles[TSR_HOME_VALUE].offset;
    std::vector<Home> chunks;
    for (uint64_t begin = 0; begin < whole.num_elements;) {
      const uint64_t cut = (origin + begin + chunk_elements_) / kCutElements * kCutElements - origin;
      const uint64_t end = std::min(cut, whole.num_elements);
      chunks.push_back(part_of(whole, begin, end));
      begin = end;
    }
    return chunks;
  }

  /// Homes are in the order of their ids.
  void replace_homes() {
    old_homes_ = program_.homes;
    std::erase_if(program_.homes, [&](const Home& home) { return span_of_.contains(home.id); });
    for (const std::vector<Home>& chunks : chunks_)
      program_.homes.insert(program_.homes.end(), chunks.begin(), chunks.end());
  }

  void replace_actions() {
    // Of each kind and span: how many of the old actions are still to come.
    std::map<std::pair<uint32_t, size_t>, size_t> num_left, num_all;
    for (const Action& action : program_.actions)
      if (is_update(action) && span_of_.contains(action.home)) ++num_all[{action.kind, span_of_.at(action.home)}];
    num_left = num_all;
    std::vector<Action> result;
    for (Action& action : program_.actions) {
      const auto span = span_of_.find(action.home);
      if (span == span_of_.end()) {
        result.push_back(std::move(action));
      } else if (!is_update(action)) {
        action.home = 0;  // a sum over stages: it keeps its range
        result.push_back(std::move(action));
      } else {
        const std::pair key(action.kind, span->second);
        const bool is_first = num_left[key] == num_all[key], is_last = --num_left[key] == 0;
        if (action.kind == TSR_ACTION_OPTIMIZER ? is_first : is_last) add_actions(result, action, span->second);
      }
    }
    program_.actions = std::move(result);
  }

  /// One action for each chunk, like `pattern`, which is of one of the old homes.
  void add_actions(std::vector<Action>& result, const Action& pattern, size_t span) {
    const Home& old = *std::ranges::find(old_homes_, pattern.home, &Home::id);
    for (const Home& chunk : chunks_[span]) {
      Action action = pattern;
      action.id = program_.next_id++;
      action.home = chunk.id;
      for (Binding& b : action.bindings)
        for (const auto& [number, role] : old.roles)
          if (role.buffer == b.buffer && role.offset == b.offset) {
            const HomeRole& place = chunk.roles[number];
            b = {place.buffer, place.offset, place.num_elements, b.slot, b.mode};
            break;
          }
      result.push_back(std::move(action));
    }
  }

  Program& program_;
  const uint64_t chunk_elements_;
  std::vector<std::vector<Home>> chunks_;  // by span that is replaced
  std::map<uint64_t, size_t> span_of_;     // of an old home
  std::vector<Home> old_homes_;
};

}  // namespace

void cut_homes(Program& program, uint64_t chunk_bytes) {
  Cutter(program, chunk_bytes).run();
}

}  // namespace tessera::host
