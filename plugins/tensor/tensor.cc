// Tensor parallelism (Megatron-LM, Shoeybi et al. 2019). The host has already reduced parameters, values and ops to
// this rank's part (passes/shard_model.cc); this pass inserts the sums that complete partial results. In a block, over
// 2 ranks:
//
//     forward  h.0.proj    ...  w projected                 contracts heads, which are split: an addend
//     all_reduce group=tp reduce=sum  a projected           inserted
//     forward  h.0.add_ln_2 ...  r projected
//     ...
//     backward h.0.qkv     ...  w d norm_1                  each rank has the gradient of its own columns: an addend
//     all_reduce group=tp reduce=sum  a d norm_1            inserted
//
// These are Megatron's g and f: two sums in the forward and two in the backward of a block. The pass finds them by the
// declared dims of values and the dims that a segment contracts, not by the names of segments.
//
// With sequence parallelism (sequence_parallel.cc) a sum whose result is in rows is a reduce_scatter, followed by an
// all_gather where the whole value is read: the same bytes, since an all_reduce is both.
//
// Cost: linear in the bindings.

#include "tensor.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "sequence_parallel.h"
#include "tessera/ranges.hpp"

namespace tessera::tensor {
namespace {

bool may_be_split(const tsr_dim& dim) {
  return dim.name == TSR_DIM_HEADS || dim.name == TSR_DIM_FFN || dim.name == TSR_DIM_VOCAB;
}

std::string divisors(int64_t n) {
  std::string text;
  for (int64_t d = 1; d <= n; ++d)
    if (n % d == 0) text += (text.empty() ? "" : ", ") + std::to_string(d);
  return text;
}

/// The extent that is split into equal parts: the dim's own; the vocabulary's is padded.
uint64_t padded_size(const tsr_dim& dim, const tsr_axis& axis) {
  const int64_t granules = dim.extent / dim.blocks / dim.granule, n = axis.num_ranks;
  if (granules % n != 0 && dim.name != TSR_DIM_VOCAB)
    throw Error(TSR_E_INVALID_ARGUMENT, std::to_string(granules) +
                                            (dim.name == TSR_DIM_HEADS ? " heads" : " feed-forward columns") +
                                            " cannot be split over " + std::to_string(n) +
                                            " ranks; the axis can have size " + divisors(granules));
  return static_cast<uint64_t>(round_up(granules, n) * dim.granule * dim.blocks);
}

/// The names of the dims that this axis splits.
std::set<uint32_t> split_names(const ProgramView& view) {
  std::set<uint32_t> names;
  for (const tsr_layout_entry& entry : view.layout())
    if (entry.axis == view.raw.axis && entry.kind == TSR_LAYOUT_SPLIT && entry.dim >= 0)
      names.insert(view.parameters()[static_cast<size_t>(entry.parameter)].dims[entry.dim].name);
  return names;
}

/// Inserts the reductions of one program.
class ReductionInserter {
 public:
  ReductionInserter(const ProgramView& view, const Edit& edit)
      : view_(view),
        edit_(edit),
        names_(split_names(view)),
        stream_(edit.stream(view.raw.axis, "sum")),
        group_(edit.group(view.raw.axis)),
        sequence_parallel_(view, edit, stream_, group_) {
    for (const tsr_action& action : view.actions())
      for (const tsr_binding& b : ProgramView::bindings(action))
        if (b.mode != TSR_MODE_READ) ++num_writers_[b.buffer];
  }

  void run() {
    for (const tsr_action& action : view_.actions()) {
      sequence_parallel_.gather(action);
      if (action.kind == TSR_ACTION_FORWARD || action.kind == TSR_ACTION_RECOMPUTE) complete_outputs(action);
      if (action.kind == TSR_ACTION_BACKWARD || action.kind == TSR_ACTION_BACKWARD_INPUT) complete_gradients(action);
    }
    complete_parameters();
  }

 private:
  bool has(int32_t value, uint32_t name) const {
    const tsr_value& v = view_.raw.values[value];
    return std::any_of(v.dims, v.dims + v.num_dims, [&](const tsr_dim& dim) { return dim.name == name; });
  }
  const tsr_segment& segment_of(const tsr_action& action) const {
    return view_.segments()[static_cast<size_t>(action.segment)];
  }

  /// An output without a contracted dim is a partial sum if that dim is split.
  void complete_outputs(const tsr_action& action) {
    const tsr_segment& segment = segment_of(action);
    for (const tsr_contraction& contraction : std::span(segment.rule->contractions, segment.rule->num_contractions)) {
      if (!names_.contains(contraction.dim)) continue;
      for (const tsr_binding& b : ProgramView::bindings(action))
        if (TSR_SLOT_ROLE(b.slot) == TSR_ROLE_OUTPUT && !has(segment.outputs[TSR_SLOT_INDEX(b.slot)], contraction.dim))
          complete(action, b, segment.outputs[TSR_SLOT_INDEX(b.slot)], contraction.reduce);
    }
  }

  /// The gradient of an input that lacks a split dim of an output is a partial sum: every rank has that of its columns.
  void complete_gradients(const tsr_action& action) {
    const tsr_segment& segment = segment_of(action);
    for (const tsr_binding& b : ProgramView::bindings(action)) {
      if (TSR_SLOT_ROLE(b.slot) != TSR_ROLE_INPUT_GRADIENT) continue;
      const int32_t input = segment.inputs[TSR_SLOT_INDEX(b.slot)];
      // dx = dy W^T sums over the columns of W, of which this rank has some.
      const bool is_partial = std::ranges::any_of(names_, [&](uint32_t name) {
        return !has(input, name) && std::any_of(segment.outputs, segment.outputs + segment.num_outputs,
                                                [&](int32_t output) { return has(output, name); });
      });
      if (is_partial) complete(action, b, input, TSR_REDUCE_SUM);
    }
  }

  /// In place. But a partial sum must not be added to a complete value, so if the buffer has several writers it is
  /// summed in a buffer of its own first.
  void complete(const tsr_action& action, const tsr_binding& binding, int32_t value, uint32_t reduce) {
    if (sequence_parallel_.rows_of(value) >= 0) return sequence_parallel_.scatter(action, binding, value);
    tsr_binding partial = binding;
    if (binding.mode == TSR_MODE_ADD && num_writers_[binding.buffer] > 1) {
      const tsr_buffer& sum = view_.buffer(binding.buffer);
      partial.buffer = edit_.add_buffer(tessera::view(sum.name), sum.kind, sum.dtype, binding.num_elements);
      partial.offset = 0;
      edit_.bind(action.id, partial);
      reduce_in_place(action, partial, reduce);
      tsr_action add = make_action(TSR_ACTION_ADD_INTO, TSR_STREAM_COMPUTE);
      add.micro_batch = action.micro_batch;
      const tsr_binding operands[] = {
          {partial.buffer, 0, partial.num_elements, kSource, TSR_MODE_READ},
          {binding.buffer, binding.offset, binding.num_elements, kDestination, TSR_MODE_ADD}};
      edit_.insert(action.id, TSR_AFTER, add, operands);
      return;
    }
    reduce_in_place(action, partial, reduce);
  }

  void reduce_in_place(const tsr_action& action, const tsr_binding& what, uint32_t reduce) {
    tsr_action sum = make_action(TSR_ACTION_ALL_REDUCE, stream_);
    sum.micro_batch = action.micro_batch;
    sum.group = group_;
    sum.reduce = reduce;
    const tsr_binding whole{what.buffer, what.offset, what.num_elements, kDestination, TSR_MODE_ADD};
    edit_.insert(action.id, TSR_AFTER, sum, {&whole, 1});
  }

  /// A range of a gradient buffer, complete on this rank after `last_writer`.
  struct GradientRange {
    uint64_t begin, end;
    const tsr_action* last_writer;
  };

  /// The gradients of parameters that are applied to rows (norms, biases) are partial: each rank has the sum over its
  /// rows. Neighbors are summed together.
  void complete_parameters() {
    for (auto& [buffer, by_begin] : gradient_ranges_of_rows()) {
      std::optional<GradientRange> open;
      for (const auto& [begin, range] : by_begin) {
        constexpr uint64_t kAlignment = 128;  // parameters start at its multiples
        if (open && begin - open->end < kAlignment) {
          open->end = range.end;
          if (position_of(*range.last_writer) > position_of(*open->last_writer)) open->last_writer = range.last_writer;
          continue;
        }
        if (open) sum(buffer, *open);
        open = range;
      }
      if (open) sum(buffer, *open);
    }
  }

  std::map<uint64_t, std::map<uint64_t, GradientRange>> gradient_ranges_of_rows() const {
    std::map<uint64_t, std::map<uint64_t, GradientRange>> ranges;  // by buffer, by begin
    for (const tsr_action& action : view_.actions())
      for (const tsr_binding& b : ProgramView::bindings(action)) {
        if (TSR_SLOT_ROLE(b.slot) != TSR_ROLE_GRADIENT) continue;
        const int32_t p = segment_of(action).parameters[TSR_SLOT_INDEX(b.slot)];
        if (view_.parameters()[static_cast<size_t>(p)].partial_axes >> view_.raw.axis & 1u)
          ranges[b.buffer][b.offset] = {b.offset, b.offset + b.num_elements, &action};
      }
    return ranges;
  }

  size_t position_of(const tsr_action& action) const { return static_cast<size_t>(&action - view_.actions().data()); }

  void sum(uint64_t buffer, const GradientRange& range) {
    reduce_in_place(*range.last_writer, {buffer, range.begin, range.end - range.begin, 0, 0}, TSR_REDUCE_SUM);
  }

  const ProgramView& view_;
  const Edit& edit_;
  const std::set<uint32_t> names_;
  const uint32_t stream_;
  const int32_t group_;
  SequenceParallel sequence_parallel_;
  std::map<uint64_t, int> num_writers_;
};

}  // namespace

Tensor::Tensor(std::string_view, std::span<const tsr_option_value> options)
    : splits_rows_(option(options, "sequence-parallel").i != 0) {}

void Tensor::layout(const ProgramView& view, const LayoutSink& sink) const {
  if (view.axis().num_ranks == 1) return;
  if (splits_rows_) {
    tsr_layout_entry rows{};
    rows.parameter = rows.dim = -1;
    rows.name = TSR_DIM_ROWS;
    rows.axis = view.raw.axis;
    rows.kind = TSR_LAYOUT_SPLIT;
    rows.blocks = 1;
    rows.parts = static_cast<uint32_t>(view.axis().num_ranks);
    sink.add_entry(rows);
  }
  bool splits_any = false;
  for (size_t p = 0; p < view.parameters().size(); ++p) {
    const tsr_parameter& parameter = view.parameters()[p];
    for (uint32_t d = 0; d < parameter.num_dims; ++d) {
      const tsr_dim& dim = parameter.dims[d];
      if (!may_be_split(dim)) continue;
      tsr_layout_entry entry{};
      entry.parameter = static_cast<int32_t>(p);
      entry.axis = view.raw.axis;
      entry.roles = TSR_ALL_HOME_ROLES;
      entry.kind = TSR_LAYOUT_SPLIT;
      entry.dim = static_cast<int32_t>(d);
      entry.parts = static_cast<uint32_t>(view.axis().num_ranks);
      entry.blocks = dim.blocks;
      entry.padded_size = padded_size(dim, view.axis());
      sink.add_entry(entry);
      splits_any = true;
    }
  }
  // Every rank would compute all of it.
  if (!splits_any)
    throw Error(TSR_E_UNSUPPORTED,
                "the model has no heads, feed-forward columns or vocabulary that tensor parallelism could split; give "
                "the axis another strategy, such as ddp, fsdp, zero3 or pipeline");
}

void Tensor::lower(const ProgramView& view, const Edit& edit) const {
  if (view.raw.purpose == TSR_PURPOSE_INIT || view.axis().num_ranks == 1) return;
  ReductionInserter(view, edit).run();
  edit.collect_garbage();
}

}  // namespace tessera::tensor
