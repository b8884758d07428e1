// The copies by which items come and go.
#pragma once

#include <cstddef>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "program/program.h"

namespace tessera::host {

/// Streams on which items come and go, made on first use: two of the device, two of the host that read and write files.
inline constexpr std::string_view kFetchStream = "fetch", kEvictStream = "evict";
inline constexpr std::string_view kFileInStream = "file_in", kFileOutStream = "file_out";
/// The stream of actions that a policy runs on the host.
inline constexpr std::string_view kHostStream = "host";

/// Whether the action is a copy between device memory and where an item is kept.
bool is_movement(const Program& program, const Action& action);

/// Copies, and what else movement does, to be inserted into a program. A place in a file is copied directly to and from
/// device memory that is the host's, else through a bounce buffer in the host's memory.
class CopyList {
 public:
  CopyList(Program& program, bool device_memory_is_host)
      : program_(program), device_memory_is_host_(device_memory_is_host) {}

  /// A copy before the action that is now at `position`. `use` is the action for which an item is fetched, or the last
  /// one that used it before it is evicted. What is fetched may be wanted in the host's memory. Slots and modes of the
  /// ranges are ignored.
  void fetch(size_t position, size_t use, const Binding& from, const Binding& to);
  void evict(size_t position, size_t use, const Binding& from, const Binding& to);
  /// Moves an action to an earlier position: before the copies there, or after the evictions, whose results it reads.
  void advance_before_copies(size_t action, size_t position) { advance(Turn::first, action, position); }
  void advance_after_evictions(size_t action, size_t position) { advance(Turn::after_evict, action, position); }
  /// The position where an action of the program will be.
  size_t position_of(size_t action) const;
  /// A new action at that position, before the copies there, or after them.
  void add_before_copies(size_t position, Action action) { add(Turn::first, position, std::move(action)); }
  void add_after_copies(size_t position, Action action) { add(Turn::last, position, std::move(action)); }
  /// Inserts all of them. At one position evictions come before fetches, and those with earlier uses before others,
  /// because a stream is first in, first out.
  void insert();

 private:
  /// The order at one position.
  enum class Turn { first, evict, after_evict, fetch, last };
  struct Insertion {
    size_t position = 0;
    Turn turn = Turn::last;
    size_t use = 0;
    Action action;
    bool is_advanced = false;  // the program's action at `use`
    auto order() const { return std::tuple(position, turn, use); }
  };

  bool is_in(uint32_t memory, const Binding& range) const { return program_.buffer(range.buffer).memory == memory; }
  void advance(Turn turn, size_t action, size_t position);
  void add(Turn turn, size_t position, Action action);
  void copy(size_t position, Turn turn, size_t use, uint32_t stream, const Binding& from, const Binding& to);
  Binding bounce_buffer(const Binding& like);

  Program& program_;
  const bool device_memory_is_host_;
  std::vector<Insertion> insertions_;
  std::map<size_t, size_t> advanced_;  // actions: their positions
};

}  // namespace tessera::host
