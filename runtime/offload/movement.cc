// Movement of items between device memory and another one, in terms of *stays*: a stay is a run of uses during which
// an item is in device memory. An item leaves after visit 2, linger 1, and is used again in visit 7, ahead 1:
//
//     visit            1    2    3    4    5    6    7    8
//     uses             w    r                        r
//     before           %40 ----------------------------        f32[64]
//     after            %40 -------|                            its first stay, which keeps the buffer
//                                 evict                        copy  r %40 src  w %95 dst     %95 in the other memory
//                                                fetch         copy  r %95 src  w %96 dst     %96 = fetched
//                                                %96 ---       its second stay, whose uses are bound to %96
//
// Everything follows from the bindings. stays.cc cuts an item into stays and atoms, and for each atom the walk over its
// stays knows where its valid copy is outside of device memory, if anywhere:
//  - a stay fetches the atoms whose first access is not a write, with one copy for atoms that are side by side;
//  - it evicts the atoms that it has written and that a later stay uses. An atom that it only read is valid where it
//    came from, so nothing is copied.
// A persistent item rests in the other memory between programs: its buffer is there, all its stays are fetched copies,
// and what they write is evicted to its place in the buffer.
// Actions that run on the host work on the item where it is: a persistent one in its buffer, a transient one in what
// was evicted. What they write is valid there, and is fetched from there. Positions are those of the list alone:
// `ahead` and `linger` make the live ranges longer, so that the planner keeps as many stays apart, which is double
// buffering without a pool of buffers. When a copy really runs is left to the derived dependencies.
//
// Cost: linear in the bindings, and n log n in the atoms of an item.

#include "offload/movement.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "memory/footprint.h"
#include "offload/copies.h"
#include "offload/host_runs.h"
#include "offload/stays.h"
#include "offload/visits.h"
#include "program/collective_operands.h"
#include "tessera/error.hpp"
#include "tessera/ranges.hpp"

namespace tessera::host {
namespace {

/// Where an atom's valid copy is, outside of the stays.
struct Place {
  uint64_t buffer = 0;  // 0: nowhere
  uint64_t offset = 0;
  size_t valid_from = 0;  // position
};

/// A range that is copied from one place to another, which grows while atoms are side by side in both.
struct Run {
  uint64_t from_buffer = 0, from = 0, to = 0, num_elements = 0;
  size_t valid_from = 0;

  bool continues_at(uint64_t buffer, uint64_t from_offset, uint64_t to_offset) const {
    return buffer == from_buffer && from + num_elements == from_offset && to + num_elements == to_offset;
  }
};

class Mover {
 public:
  Mover(Program& program, std::span<const tsr_visit> visits, bool device_memory_is_host,
        std::span<const size_t> on_host)
      : program_(program),
        visits_(visits),
        visit_of_(visit_of_actions(visits)),
        on_host_(on_host.begin(), on_host.end()),
        copies_(program, device_memory_is_host) {}

  void run(std::span<const tsr_leave> leaves) {
    for (const tsr_leave& leave : leaves)
      leaves_[leave.buffer].emplace(leave.after, &leave);
    for (const auto& [item, accesses] : find_accesses())
      move(item, stays_of({program_, visit_of_, on_host_}, program_.buffer(item), accesses, leaves_.at(item)));
    run_on_host(program_, on_host_, copies_);
    copies_.insert();
  }

 private:
  std::map<uint64_t, std::vector<Access>> find_accesses() const {
    std::map<uint64_t, std::vector<Access>> result;
    for (size_t i = 0; i < program_.actions.size(); ++i)
      for (const Binding& b : accesses(program_, program_.actions[i]))
        if (leaves_.contains(b.buffer) && b.num_elements > 0)
          result[b.buffer].push_back(in_blocks({i, b.offset, b.offset + b.num_elements, b.mode}, b.buffer));
    return result;
  }

  /// What rests in a file is read and written in whole blocks, so that no two copies share one.
  Access in_blocks(Access access, uint64_t item) const {
    const Buffer& buffer = program_.buffer(item);
    if (!buffer.persistent || leaves_.at(item).begin()->second->memory != TSR_MEMORY_FILE) return access;
    const uint64_t block = kFileAlignment / TSR_NUM_BYTES(buffer.dtype, 1);
    const uint64_t begin = access.begin / block * block;
    const uint64_t end = std::min(round_up(access.end, block), buffer.num_elements);
    const bool is_whole = begin == access.begin && end == access.end;
    return {access.action, begin, end, !is_whole && access.mode == TSR_MODE_WRITE ? TSR_MODE_ADD : access.mode};
  }

  void move(uint64_t item, const Stays& stays) {
    const Stay& last = stays.all.back();
    if (!last.leave && stays.all.size() < 2) return;
    std::vector<Place> places(stays.bounds.size());
    std::vector<size_t> last_stay(stays.bounds.size());  // that needs the atom; persistent ones are needed after all
    for (size_t s = 0; s < stays.all.size(); ++s)
      stays.for_each_atom(stays.all[s], [&](size_t atom, const Access&) { last_stay[atom] = s; });
    if (last.leave) {
      rest(item, last.leave->memory);
      std::ranges::fill(last_stay, stays.all.size());
      for (size_t atom = 0; atom < stays.bounds.size(); ++atom)
        places[atom] = {item, stays.bounds[atom], 0};
    }
    for (size_t s = 0; s < stays.all.size(); ++s) {
      const Stay& stay = stays.all[s];
      if (stay.on_host) {
        use_on_host(item, s, stays, places);
        continue;
      }
      const uint64_t in_device = s == 0 && !last.leave ? item : fetch(item, s, stays, places);
      if (stay.leave) evict(item, in_device, s, stays, last_stay, places);
    }
  }

  /// Binds what runs on the host to where the item is; if that is not one range of the host's memory, to a copy there.
  void use_on_host(uint64_t item, size_t index, const Stays& stays, std::span<Place> places) {
    const Stay& stay = stays.all[index];
    const std::optional<Place> there = place_on_host(stay, stays, places);
    const uint64_t kept = there ? there->buffer : fetch(item, index, stays, places);
    const uint64_t origin = there ? there->offset : shift_[kept];
    if (there) {
      bind(stay, item, kept, origin);
      advance_squares(stay, stays, places);
    }
    stays.for_each_atom(stay, [&](size_t atom, const Access& access) {
      if (access.mode != TSR_MODE_READ) places[atom] = {kept, stays.bounds[atom] - origin, stay.last_action() + 1};
    });
  }

  /// The host sums squares as soon as they are there, beside the backward: in the list, right after they are evicted.
  void advance_squares(const Stay& stay, const Stays& stays, std::span<const Place> places) {
    const auto reads = [](const Access& access) { return access.mode == TSR_MODE_READ; };
    if (!std::ranges::all_of(stay.accesses, reads)) return;
    std::map<size_t, size_t> valid_from;  // by action
    stays.for_each_atom(stay, [&](size_t atom, const Access& access) {
      size_t& position = valid_from[access.action];
      position = std::max(position, places[atom].valid_from);
    });
    for (const auto& [action, position] : valid_from)
      if (only_sums_squares(program_.actions[action])) copies_.advance_after_evictions(action, position);
  }

  /// The buffer in the host's memory that has all atoms of the stay, with the item's element at its start (modulo
  /// 2^64).
  std::optional<Place> place_on_host(const Stay& stay, const Stays& stays, std::span<const Place> places) const {
    std::optional<Place> result;
    bool is_one = true;
    stays.for_each_atom(stay, [&](size_t atom, const Access&) {
      const Place& place = places[atom];
      const uint64_t origin = stays.bounds[atom] - place.offset;
      if (!result) result = Place{place.buffer, origin, 0};
      is_one &= place.buffer == result->buffer && origin == result->offset;
    });
    const bool is_there = is_one && result->buffer && program_.buffer(result->buffer).memory == TSR_MEMORY_HOST;
    return is_there ? result : std::nullopt;
  }

  void rest(uint64_t item, uint32_t memory) { std::ranges::find(program_.buffers, item, &Buffer::id)->memory = memory; }

  /// Copies in what the stay uses before writing it, binds its uses to the copy, and returns the copy's id.
  uint64_t fetch(uint64_t item, size_t index, const Stays& stays, std::span<const Place> places) {
    const Stay &stay = stays.all[index], &before = index ? stays.all[index - 1] : stays.all.back();
    const std::vector<uint64_t>& bounds = stays.bounds;
    std::map<size_t, uint32_t> first_mode;  // by atom
    stays.for_each_atom(stay, [&](size_t atom, const Access& access) { first_mode.emplace(atom, access.mode); });
    const uint64_t begin = bounds[first_mode.begin()->first], end = bounds[first_mode.rbegin()->first + 1];
    const Buffer kept = program_.buffer(item);
    const uint32_t memory = stay.on_host ? TSR_MEMORY_HOST : TSR_MEMORY_DEVICE;
    const uint64_t copy =
        program_.add_buffer({0, kept.name, TSR_BUFFER_FETCHED, memory, kept.dtype, false, end - begin});
    shift_[copy] = begin;
    std::vector<Run> runs;
    for (const auto& [atom, mode] : first_mode) {
      if (mode == TSR_MODE_WRITE) continue;
      const Place& place = places[atom];
      if (place.buffer == 0)
        throw Error(TSR_E_INTERNAL, "movement of " + kept.name + ": its elements from " + std::to_string(bounds[atom]) +
                                        " on are read before anything wrote them");
      const uint64_t to = bounds[atom] - begin, num_elements = bounds[atom + 1] - bounds[atom];
      if (runs.empty() || !runs.back().continues_at(place.buffer, place.offset, to))
        runs.push_back({place.buffer, place.offset, to, 0, 0});
      runs.back().num_elements += num_elements;
      runs.back().valid_from = std::max(runs.back().valid_from, place.valid_from);
    }
    for (const Run& run : runs)
      copies_.fetch(std::max(fetch_position(before, stay), run.valid_from), stay.first_action(),
                    {run.from_buffer, run.from, run.num_elements, 0, 0}, {copy, run.to, run.num_elements, 0, 0});
    bind(stay, item, copy, begin);
    return copy;
  }

  /// Copies out what the stay has written and a later one uses, after the squares that come along.
  void evict(uint64_t item, uint64_t in_device, size_t index, const Stays& stays, std::span<const size_t> last_stay,
             std::span<Place> places) {
    const Stay& stay = stays.all[index];
    const std::vector<uint64_t>& bounds = stays.bounds;
    const uint64_t origin = in_device == item ? 0 : shift_[in_device];
    std::set<size_t> dirty;
    stays.for_each_atom(stay, [&](size_t atom, const Access& access) {
      if (access.mode != TSR_MODE_READ && last_stay[atom] > index) dirty.insert(atom);
    });
    const size_t position = evict_position(stays.all, index);
    for (const size_t squares : stay.squares)
      copies_.advance_before_copies(squares, position);
    const Buffer kept = program_.buffer(item);
    for (auto atom = dirty.begin(); atom != dirty.end();) {
      const size_t first = *atom;
      size_t past = first;
      for (; atom != dirty.end() && *atom == past; ++atom)
        ++past;
      const uint64_t num_elements = bounds[past] - bounds[first];
      const uint64_t away =
          kept.persistent
              ? item
              : program_.add_buffer({0, kept.name, kept.kind, stay.leave->memory, kept.dtype, false, num_elements});
      const uint64_t offset = kept.persistent ? bounds[first] : 0;
      copies_.evict(position, stay.last_action(), {in_device, bounds[first] - origin, num_elements, 0, 0},
                    {away, offset, num_elements, 0, 0});
      for (size_t k = first; k < past; ++k)
        places[k] = {away, offset + bounds[k] - bounds[first], position};
    }
  }

  size_t fetch_position(const Stay& before, const Stay& stay) const {
    if (stay.on_host) return stay.first_action();
    const uint32_t ahead = std::min(before.leave->ahead, stay.first_visit);
    return std::min<size_t>(visits_[stay.first_visit - ahead].first_action, stay.first_action());
  }

  size_t evict_position(std::span<const Stay> stays, size_t index) const {
    const Stay& stay = stays[index];
    const size_t last = std::min<size_t>(size_t{stay.last_visit} + stay.leave->linger, visits_.size() - 1);
    size_t position = visits_[last].last_action + 1;
    for (size_t next = index + 1; next < stays.size(); ++next)
      if (overlap(stay, stays[next])) {
        position = std::min(position, fetch_position(stays[next - 1], stays[next]));
        break;
      }
    return std::max(stay.last_action() + 1, position);
  }

  static bool overlap(const Stay& a, const Stay& b) {
    return std::ranges::any_of(a.accesses, [&](const Access& x) {
      return std::ranges::any_of(b.accesses, [&](const Access& y) { return x.begin < y.end && y.begin < x.end; });
    });
  }

  void bind(const Stay& stay, uint64_t item, uint64_t copy, uint64_t begin) {
    const auto bind_action = [&](size_t action) {
      for (Binding& b : program_.actions[action].bindings)
        if (b.buffer == item) {
          b.buffer = copy;
          b.offset -= begin;
        }
    };
    for (const Access& access : stay.accesses)
      bind_action(access.action);
    std::ranges::for_each(stay.squares, bind_action);
  }

  Program& program_;
  const std::span<const tsr_visit> visits_;
  const std::vector<uint32_t> visit_of_;
  const std::set<size_t> on_host_;  // actions
  std::map<uint64_t, LeavesOfItem> leaves_;
  std::map<uint64_t, uint64_t> shift_;  // of fetched copies: the item's element at their start
  CopyList copies_;
};

}  // namespace

void move_items(Program& program, std::span<const tsr_visit> visits, std::span<const tsr_leave> leaves,
                bool device_memory_is_host, std::span<const size_t> on_host) {
  Mover(program, visits, device_memory_is_host, on_host).run(leaves);
}

}  // namespace tessera::host
