// Data parallelism with overlapped, bucketed sums (as PyTorch's DDP: Li et al. 2020). Gradients of several units are
// bound into one buffer, the bucket, which is summed as soon as its last writer is done. In
// tests/golden/programs/two-blocks-ddp.txt all units fit into one bucket: every g: operand is a range of %61, and
//
//     40    compute             backward wte mb=0  ...  a %61+28928:3072 g:weight                its last writer
//     42    comm.dp.gradient    all_reduce group=dp reduce=sum  a %61 dst  w %87 w:0  # 41       inserted
//
// With several buckets the first sums run on their own stream while the backward of earlier blocks still computes. The
// pass writes no dependency: the position after the last writer implies it.
//
// INIT broadcasts the values of coordinate 0, so that all ranks start with the same values.
//
// Invariant: the bucket size changes no bit. Sums are canonical, so the result of an element does not depend on the
// other elements of its bucket. Cost: bindings times the logarithm of the ranges.

#include "ddp.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tessera/ranges.hpp"
#include "tessera/storage.hpp"

namespace tessera::ddp {
namespace {

/// A range of a gradient buffer, complete after `last_writer` (a position in the list).
struct GradientRange {
  uint64_t buffer;
  ElementRange elements;
  size_t last_writer;
};

/// The buffers with this rank's gradients that have to be summed: those of the homes or, with
/// --reduce-every=micro-batch, those of each micro-batch, which `add` actions read.
std::set<uint64_t> gradient_sources(const ProgramView& view) {
  std::set<uint64_t> homes, sources;
  for (const tsr_home& home : view.homes())
    if (const uint64_t gradient = role_of(home, TSR_HOME_GRADIENT).buffer) homes.insert(gradient);
  for (const tsr_action& action : view.actions()) {
    if (action.kind != TSR_ACTION_ADD_INTO) continue;
    const tsr_binding* source = ProgramView::find_binding(action, kSource);
    const tsr_binding* target = ProgramView::find_binding(action, kDestination);
    if (source && target && homes.contains(target->buffer)) sources.insert(source->buffer);
  }
  // If there are `add`s, the buffers that they read are summed, and the homes' own buffers then hold sums already.
  return sources.empty() ? homes : sources;
}

/// Every range of a gradient buffer with its last writer, in order of completion.
std::vector<GradientRange> ranges_by_completion(const ProgramView& view) {
  const auto sources = gradient_sources(view);
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, GradientRange> ranges;  // by buffer, begin, end
  for (size_t i = 0; i < view.actions().size(); ++i)
    for (const tsr_binding& b : ProgramView::bindings(view.actions()[i]))
      if (b.mode != TSR_MODE_READ && sources.contains(b.buffer))
        ranges[{b.buffer, b.offset, b.offset + b.num_elements}] = {b.buffer, {b.offset, b.offset + b.num_elements}, i};
  std::vector<GradientRange> result;
  for (const auto& [key, range] : ranges)
    result.push_back(range);
  std::ranges::stable_sort(result, {}, &GradientRange::last_writer);
  return result;
}

/// The gradient of one unit, pads included.
struct UnitGradient {
  uint64_t buffer;
  uint64_t num_elements;
  std::vector<GradientRange> ranges;  // by completion
  size_t last_writer = 0;
};

std::vector<UnitGradient> units_by_completion(const ProgramView& view) {
  std::map<uint64_t, UnitGradient> units;
  for (const GradientRange& range : ranges_by_completion(view)) {
    UnitGradient& unit = units[range.buffer];
    unit.buffer = range.buffer;
    unit.num_elements = view.buffer(range.buffer).num_elements;
    unit.ranges.push_back(range);
    unit.last_writer = std::max(unit.last_writer, range.last_writer);
  }
  std::vector<UnitGradient> result;
  for (auto& [id, unit] : units)
    result.push_back(std::move(unit));
  std::ranges::stable_sort(result, {}, &UnitGradient::last_writer);
  return result;
}

/// Inserts the sums of one axis.
class Reducer {
 public:
  Reducer(const ProgramView& view, const Edit& edit, uint64_t bucket_bytes)
      : view_(view), edit_(edit), bucket_bytes_(bucket_bytes), stream_(edit.stream(view.raw.axis, "gradient")) {}

  /// Units are in order of completion, so a bucket holds neighbors and is complete early. A bucket never mixes
  /// micro-batches: the first would wait for the last.
  void run() {
    std::vector<const UnitGradient*> small;
    uint64_t small_bytes = 0;
    const auto units = units_by_completion(view_);
    for (const UnitGradient& unit : units) {
      const uint64_t bytes = unit.num_elements * width(unit.buffer);
      if (bytes >= bucket_bytes_) {
        sum_in_ranges(unit);
        continue;
      }
      if (!small.empty() && (small_bytes + bytes > bucket_bytes_ || micro_batch(*small.front()) != micro_batch(unit))) {
        merge(small);
        small.clear();
        small_bytes = 0;
      }
      small.push_back(&unit);
      small_bytes += bytes;
    }
    if (!small.empty()) merge(small);
  }

 private:
  uint64_t width(uint64_t buffer) const { return TSR_NUM_BYTES(view_.buffer(buffer).dtype, 1); }
  int micro_batch(const UnitGradient& unit) const { return view_.actions()[unit.last_writer].micro_batch; }

  bool sends_float32() const { return view_.raw.reduce_dtype == TSR_F32; }

  uint64_t add_gradient(std::string_view name, uint64_t buffer, uint64_t num_elements) const {
    return edit_.add_buffer(name, TSR_BUFFER_GRADIENT, view_.buffer(buffer).dtype, num_elements);
  }

  /// The buffer of this rank's own gradient before it is summed into `buffer`: the same one or, when another dtype is
  /// sent, a separate one.
  uint64_t local(uint64_t buffer) {
    if (sends_float32()) return buffer;
    const tsr_buffer& sum = view_.buffer(buffer);
    const uint64_t local = add_gradient(tessera::view(sum.name), buffer, sum.num_elements);
    storage::move_writers(view_, edit_, buffer, local, 0);
    return local;
  }

  void sum(uint64_t local, uint64_t buffer, std::string_view name, uint64_t begin, uint64_t end, size_t last_writer) {
    const tsr_action& writer = view_.actions()[last_writer];
    const bool is_of_micro_batch = view_.raw.reduce_every == TSR_EVERY_MICRO_BATCH;
    const storage::Inserter after(edit_, writer.id, TSR_AFTER, is_of_micro_batch ? writer.micro_batch : -1);
    storage::sum_on_every_rank(edit_, after, view_.raw.reduce_dtype, stream_, edit_.group(view_.raw.axis), name,
                               {local, begin, end - begin}, {buffer, begin, end - begin});
  }

  /// A large unit: ranges of at most a bucket, each summed after its last writer.
  void sum_in_ranges(const UnitGradient& unit) {
    const uint64_t bucket = std::max<uint64_t>(bucket_bytes_ / width(unit.buffer), 1);
    const uint64_t from = local(unit.buffer);
    // From the end: the backward completes the last parameters of a unit first.
    for (uint64_t end = unit.num_elements; end > 0;) {
      const uint64_t begin = end - std::min(bucket, end);
      size_t last = 0;
      for (const GradientRange& range : unit.ranges)
        if (range.elements.overlaps({begin, end})) last = std::max(last, range.last_writer);
      sum(from, unit.buffer, tessera::view(view_.buffer(unit.buffer).name), begin, end, last);
      end = begin;
    }
  }

  /// Small units share one buffer and one sum.
  void merge(const std::vector<const UnitGradient*>& units) {
    uint64_t num_elements = 0;
    size_t last = 0;
    for (const UnitGradient* unit : units) {
      num_elements += unit->num_elements;
      last = std::max(last, unit->last_writer);
    }
    const uint64_t first = units[0]->buffer;
    if (units.size() == 1)
      return sum(local(first), first, tessera::view(view_.buffer(first).name), 0, num_elements, last);
    const std::string name = "bucket " + std::to_string(num_buckets_++) + " of " + to_string(view_.axis().name);
    const uint64_t bucket = add_gradient(name, first, num_elements);
    const uint64_t own = sends_float32() ? bucket : add_gradient(name, first, num_elements);
    uint64_t offset = 0;
    for (const UnitGradient* unit : units) {
      // With a 16-bit reduce dtype there are three buffers: written, sent, and read by the optimizer (decision 0010).
      if (!sends_float32()) storage::move_writers(view_, edit_, unit->buffer, own, offset);
      edit_.rebind(unit->buffer, bucket, offset);
      offset += unit->num_elements;
    }
    sum(own, bucket, name, 0, num_elements, last);
  }

  const ProgramView& view_;
  const Edit& edit_;
  uint64_t bucket_bytes_;
  uint32_t stream_;
  int num_buckets_ = 0;
};

}  // namespace

Ddp::Ddp(std::string_view, std::span<const tsr_option_value> options)
    : bucket_bytes_(static_cast<uint64_t>(option(options, "bucket-mb").d * 1024 * 1024)) {}

void Ddp::lower(const ProgramView& view, const Edit& edit) const {
  if (view.raw.purpose == TSR_PURPOSE_INIT)
    storage::broadcast_values(view, edit, edit.stream(view.raw.axis, "gradient"));
  if (view.raw.purpose != TSR_PURPOSE_STEP) return;
  Reducer(view, edit, bucket_bytes_).run();
  edit.collect_garbage();
}

}  // namespace tessera::ddp
