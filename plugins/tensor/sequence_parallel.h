// Sequence parallelism: inserts the collectives that convert values between their two forms, whole for segments that
// are split, and in rows for segments that work row by row.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "tessera/strategy.hpp"

namespace tessera::tensor {

/// Inserts all_gathers of rows, and reduce_scatters for sums whose result is in rows. Borrows its arguments.
class SequenceParallel {
 public:
  SequenceParallel(const ProgramView& view, const Edit& edit, uint32_t stream, int32_t group);

  /// The row form of the whole value `value`; -1: none.
  int32_t rows_of(int32_t value) const { return view_.raw.values[value].same_as; }

  /// Inserts, after `action`, which writes a partial sum of a whole value (or of its gradient) to `whole`, the
  /// reduce_scatter into its row form.
  void scatter(const tsr_action& action, const tsr_binding& whole, int32_t value) const;

  /// Inserts all_gathers before and after an action of the program; to be called with each action, in list order.
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
  std::map<Key, uint64_t> inputs_;       // buffers from which actions read values
  std::map<Key, uint64_t> gradients_;    // buffers of gradients, by the value whose gradient it is
  /// By micro-batch: what arrives last from another stage and nothing computes with as it is. With frozen position
  /// embeddings that is the gradient of the tokens' embeddings in rows.
  std::map<int32_t, uint64_t> received_;
  std::map<Key, uint64_t> latest_;  // of values in row form: the buffer written last
  std::set<Key> gathered_gradients_;
};

}  // namespace tessera::tensor
