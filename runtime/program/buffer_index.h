// Buffers by id in constant time, for what looks at every binding of a program.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "program/program.h"

namespace tessera::host {

/// The index of a buffer in Program::buffers. Borrows the program, whose buffers stay as they are. Ids of a program
/// that the host has made are numbered through with those of its actions; for others, which may have any, it searches.
class BufferIndex {
 public:
  explicit BufferIndex(const Program& program) : program_(program) {
    const auto& buffers = program.buffers;
    if (buffers.empty()) return;
    const uint64_t limit = kMaxIdsPerEntry * (buffers.size() + program.actions.size());
    index_.resize(std::min(buffers.back().id - buffers.front().id, limit) + 1);
    for (uint32_t i = 0; i < buffers.size(); ++i)
      if (const uint64_t at = buffers[i].id - buffers.front().id; at < index_.size()) index_[at] = i;
  }

  /// Throws INTERNAL for an unknown id, as Program::buffer does.
  size_t operator()(uint64_t id) const {
    const auto& buffers = program_.buffers;
    if (!index_.empty())
      if (const uint64_t at = id - buffers.front().id; at < index_.size() && buffers[index_[at]].id == id)
        return index_[at];
    return static_cast<size_t>(&program_.buffer(id) - buffers.data());
  }

 private:
  static constexpr uint64_t kMaxIdsPerEntry = 8;

  const Program& program_;
  std::vector<uint32_t> index_;  // by id, from the first buffer's on
};

}  // namespace tessera::host
