// The copies by which items come and go.
#pragma once

#include <cstddef>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "program/program.h"

namespace tessera::host {

/// Streams on which items come and go, made on first use: two of the device, two of the host that read and write files.
inline constexpr std::string_view kFetchStream = "fetch", kEvictStream = "evict";
inline constexpr std::string_view kFileInStream = "file_in", kFileOutStream = "file_out";

/// Whether the action is a copy between device memory and where an item is kept.
bool is_movement(const Program& program, const Action& action);

/// Copies to be inserted into a program. A place in a file is copied directly to and from device memory that is the
/// host's, else through a bounce buffer in the host's memory.
class CopyList {
 public:
  CopyList(Program& program, bool device_memory_is_host)
      : program_(program), device_memory_is_host_(device_memory_is_host) {}

  /// A copy before the action that is now at `position`. `use` is the action for which an item is fetched, or the last
  /// one that used it before it is evicted. Slots and modes of the ranges are ignored.
  void fetch(size_t position, size_t use, const Binding& from, const Binding& to);
  void evict(size_t position, size_t use, const Binding& from, const Binding& to);
  /// Moves an action to an earlier position, before the copies there.
  void advance(size_t action, size_t position);
  /// Inserts all of them. At one position evictions come before fetches, and those with earlier uses before others,
  /// because a stream is first in, first out.
  void insert();

 private:
  struct Copy {
    size_t position = 0;
    bool is_fetch = false;
    size_t use = 0;
    Action action;
    auto order() const { return std::tuple(position, is_fetch, use); }
  };

  bool is_in_file(const Binding& range) const { return program_.buffer(range.buffer).memory == TSR_MEMORY_FILE; }
  Binding bounce_buffer(const Binding& like);

  Program& program_;
  const bool device_memory_is_host_;
  std::vector<Copy> copies_;
  std::map<size_t, size_t> advanced_;  // actions: their positions
};

}  // namespace tessera::host
