// SPDX-License-Identifier: Apache-2.0
// Sums of gradients over ranks: where in a program each gradient is complete, and the actions that sum it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/flat_param.hpp"

namespace tessera::storage {

/// A group's gradient that has to be summed over ranks: that of the step, or of one micro-batch.
struct GradientSum {
  int micro_batch = -1;
  std::vector<uint64_t> buffers;  ///< by param
  uint64_t last_writer = 0;       ///< action
  /// The actions that add it to the homes, in list order; none: the homes keep the sum itself.
  std::vector<const tsr_action*> adds;
};

/// Where the gradients are that this rank has, one group for each of their buffers: for strategies that sum gradients
/// and split nothing, so parameters may be whole or split by the strategy of another axis. Of a group only the name,
/// the gradient and the number of elements are set.
inline std::vector<ParamGroup> gradients(const ProgramView& view) {
  std::set<uint64_t> done;
  std::vector<ParamGroup> groups;
  for (const tsr_home& home : view.homes()) {
    const uint64_t buffer = role_of(home, TSR_HOME_GRADIENT).buffer;
    if (!buffer || !done.insert(buffer).second) continue;
    FlatParam param;
    param.gradient = buffer;
    const tsr_buffer& gradient = view.buffer(buffer);
    groups.push_back({to_string(gradient.name), {param}, {0}, gradient.num_elements});
  }
  return groups;
}

/// Finds the sums of a program's groups. Borrows the view.
class GradientSums {
 public:
  explicit GradientSums(const ProgramView& view);
  /// One for the step, or one per micro-batch when `add` actions add them to the home; none for a frozen group or a
  /// program that does not train. Throws UNSUPPORTED when parts of a group are added to their homes before all of it is
  /// complete.
  std::vector<GradientSum> of(const ParamGroup& group) const;

 private:
  struct Add {
    size_t position;  // in the list
    uint64_t source;
  };
  const ProgramView& view_;
  std::map<uint64_t, size_t> last_writer_;     // by buffer: position in the list
  std::map<uint64_t, std::vector<Add>> adds_;  // by the buffer that is added to
};

// Two forms of program differ in whether an `add` writes the home's gradient. reduce_every=step: backwards write it
// directly, and it is complete after its last writer. reduce_every=micro-batch: each micro-batch writes its own buffer,
// which an `add` then adds to the home, and each of them is summed on its own.
inline GradientSums::GradientSums(const ProgramView& view) : view_(view) {
  for (size_t i = 0; i < view.actions().size(); ++i)
    for (const tsr_binding& b : ProgramView::bindings(view.actions()[i]))
      if (b.mode != TSR_MODE_READ) last_writer_[b.buffer] = i;
  for (size_t i = 0; i < view.actions().size(); ++i) {
    const tsr_action& action = view.actions()[i];
    const tsr_binding *from = ProgramView::find_binding(action, kSource),
                      *to = ProgramView::find_binding(action, kDestination);
    if (action.kind == TSR_ACTION_ADD_INTO && from && to) adds_[to->buffer].push_back({i, from->buffer});
  }
}

inline std::vector<GradientSum> GradientSums::of(const ParamGroup& group) const {
  if (!group.first().gradient) return {};
  struct Found {
    std::vector<uint64_t> buffers;
    std::optional<size_t> last_writer;  // positions in the list
    std::vector<size_t> adds;
  };
  std::map<int, Found> by_micro_batch;
  const auto note = [&](int micro_batch, size_t param, uint64_t buffer) -> Found& {
    Found& found = by_micro_batch[micro_batch];
    found.buffers.resize(group.params.size());
    found.buffers[param] = buffer;
    const auto writer = last_writer_.find(buffer);
    if (writer != last_writer_.end()) found.last_writer = std::max(found.last_writer.value_or(0), writer->second);
    return found;
  };
  for (size_t i = 0; i < group.params.size(); ++i) {
    const auto adds = adds_.find(group.params[i].gradient);
    if (adds == adds_.end())
      note(-1, i, group.params[i].gradient);
    else
      for (const Add& add : adds->second)
        note(view_.actions()[add.position].micro_batch, i, add.source).adds.push_back(add.position);
  }
  std::vector<GradientSum> result;
  for (auto& [micro_batch, found] : by_micro_batch) {
    if (!found.last_writer) continue;  // the host's verifier will report that nothing writes it
    std::ranges::sort(found.adds);
    if (!found.adds.empty() && found.adds.front() < *found.last_writer)
      throw Error(TSR_E_UNSUPPORTED,
                  "the gradients of " + group.name +
                      " are summed together, but some of them are added to their homes before the others are complete, "
                      "as interleaved stages do with --reduce-every=micro-batch; let each unit be a group of its own "
                      "(fsdp's wrap=unit), or give --reduce-every=step");
    GradientSum sum{micro_batch, found.buffers, view_.actions()[*found.last_writer].id, {}};
    for (const size_t position : found.adds)
      sum.adds.push_back(&view_.actions()[position]);
    result.push_back(std::move(sum));
  }
  return result;
}

/// Sums `local` over all ranks into `sum` on every rank. In float32 both are the same range, summed in place. Else a
/// cast, the sum of 16-bit values, and a cast back: rounded before and after the sum, but not accumulated in 16 bits.
inline void sum_on_every_rank(const Edit& edit, const Inserter& inserter, tsr_dtype dtype, uint32_t stream,
                              int32_t group, std::string_view name, const BufferRange& local, const BufferRange& sum) {
  BufferRange sent = sum;
  if (dtype != TSR_F32) {
    sent = {edit.add_buffer(name, TSR_BUFFER_STAGING, dtype, sum.num_elements), 0, sum.num_elements};
    inserter.cast(local, sent);
  }
  const tsr_binding whole = sent.in_place();
  inserter.collective(TSR_ACTION_ALL_REDUCE, stream, group, {&whole, 1});
  if (dtype != TSR_F32) inserter.cast(sent, sum);
}

/// Redirects actions that write or add to `from` to `to`, `offset` elements later; readers and homes stay.
inline void move_writers(const ProgramView& view, const Edit& edit, uint64_t from, uint64_t to, uint64_t offset) {
  for (const tsr_action& action : view.actions())
    for (const tsr_binding& b : ProgramView::bindings(action))
      if (b.buffer == from && b.mode != TSR_MODE_READ)
        edit.bind(action.id, {to, b.offset + offset, b.num_elements, b.slot, b.mode});
}

/// "" or " mb=2": the suffix of buffers' names.
inline std::string suffix_of(const GradientSum& sum) {
  return sum.micro_batch < 0 ? "" : " mb=" + std::to_string(sum.micro_batch);
}

/// Sums the gradients of a group over all ranks, on every rank, after the last of them is written. Returns the buffer.
/// In float32 a single flat parameter is summed in place; several are rebound into one buffer, so that one collective
/// sums them. With another wire dtype writers move to a buffer of their own and readers get the sum: a transient range
/// may be written only once, and the cast back would write it again.
inline uint64_t sum_group_on_every_rank(const ProgramView& view, const Edit& edit, uint32_t stream,
                                        const ParamGroup& group, const GradientSum& sum) {
  const tsr_dtype dtype = view.raw.reduce_dtype;
  const std::string name = group.name + suffix_of(sum);
  const auto gradient = [&] { return edit.add_buffer(name, TSR_BUFFER_GRADIENT, TSR_F32, group.num_elements); };
  const uint64_t whole = group.params.size() == 1 ? sum.buffers[0] : gradient();
  const uint64_t local = dtype == TSR_F32 ? whole : gradient();
  for (size_t i = 0; i < group.params.size(); ++i) {
    if (local != whole) move_writers(view, edit, sum.buffers[i], local, group.base[i]);
    if (whole != sum.buffers[i]) edit.rebind(sum.buffers[i], whole, group.base[i]);
  }
  const Inserter after(edit, sum.last_writer, TSR_AFTER, sum.micro_batch);
  sum_on_every_rank(edit, after, dtype, stream, edit.group(view.raw.axis), name, {local, 0, group.num_elements},
                    {whole, 0, group.num_elements});
  return whole;
}

}  // namespace tessera::storage
