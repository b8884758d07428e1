// A value for every element of a program's buffers, stored by range.
#pragma once

#include <utility>
#include <vector>

#include "program/buffer_index.h"
#include "program/range_map.h"

namespace tessera::host {

/// Borrows the program, whose buffers stay as they are.
template <class Value>
class BufferValues {
 public:
  explicit BufferValues(const Program& program) : index_(program) {
    buffers_.reserve(program.buffers.size());
    for (const Buffer& buffer : program.buffers)
      buffers_.emplace_back(buffer.num_elements);
  }

  /// Those of a binding, as RangeMap::parts gives them: counted from the buffer's start.
  typename BufferRangeMap<Value>::Parts parts(const Binding& range) {
    return of(range).parts(range.offset, range.offset + range.num_elements);
  }
  /// Gives elements [begin, begin + num_elements) of the buffer one value.
  void assign(const Binding& range, uint64_t begin, uint64_t num_elements, Value value) {
    of(range).assign(begin, begin + num_elements, std::move(value));
  }

 private:
  BufferRangeMap<Value>& of(const Binding& range) { return buffers_[index_(range.buffer)]; }

  BufferIndex index_;
  std::vector<BufferRangeMap<Value>> buffers_;
};

}  // namespace tessera::host
