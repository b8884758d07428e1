// Sequence parallelism: values that exist twice, whole for the segments that are split and in rows for those that work
// row by row, are moved from one to the other.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "tessera/strategy.hpp"

namespace tessera::tensor {

/// Inserts gathers of rows, and says where sums go that end in rows. Borrows all it is given.
class RowMover {
 public:
  RowMover(const ProgramView& view, const Edit& edit, uint32_t stream, int32_t group);

  /// The value in rows for which `value` is the whole; -1: there is none.
  int32_t rows_of(int32_t value) const { return view_.raw.values[value].rows; }

  /// Behind `action`, which leaves addends of a whole value (or of its gradient) in `whole`: their sum, in rows.
  void scatter(const tsr_action& action, const tsr_binding& whole, int32_t value) const;

  /// Inserts gathers after and before an action of the program; to be called with each, in list order.
  void gather(const tsr_action& action);

 private:
  using Key = std::pair<int32_t, int32_t>;  // value, micro-batch

  int32_t value_of(const tsr_action& action, const tsr_binding& binding) const;
  int32_t gradient_value(int32_t value) const;
  void insert(const tsr_action& anchor, uint32_t where, uint32_t kind, const tsr_binding& from,
              const tsr_binding& to) const;
  tsr_binding whole_buffer(uint64_t id, uint32_t slot, uint32_t mode) const;

  const ProgramView& view_;
  const Edit& edit_;
  const uint32_t stream_;
  const int32_t group_;
  std::map<int32_t, int32_t> whole_of_;  // value in rows -> whole
  std::map<Key, uint64_t> inputs_;       // buffers that actions read values from
  std::map<Key, uint64_t> gradients_;    // buffers of gradients, by the value whose gradient it is
  std::map<Key, uint64_t> latest_;       // of values in rows: the buffer written last
  std::set<Key> gathered_gradients_;
};

}  // namespace tessera::tensor
