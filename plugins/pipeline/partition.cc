// Where the model may be cut, and where it is cut. A cut point is before a segment if exactly one value crosses it and
// no unit has parameters on both sides. In GPT-2 (cut points are drawn as |):
//
//     wte | wpe | h.0 | h.1 | ... | ln_f loss
//
// Inside a block two values would have to be sent, the residual and another one. The tied embedding is a unit of one
// parameter, which may be used on both sides; the host sums its gradient.
//
// `auto` solves the linear partition problem by dynamic programming: of all partitions of n ranges into k parts, the
// one whose most expensive part is cheapest, and among those the most even. O(k n^2) for n of the model's blocks. Costs
// are operations of the forward, including the head: a last stage with the loss gets fewer blocks.

#include "partition.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "tessera/op_table.hpp"

namespace tessera::pipeline {
namespace {

/// The cost of moving one element, in operations of a matrix product that take as long.
constexpr double kOperationsPerElement = 32;

[[noreturn]] void refuse(const std::string& text) {
  throw Error(TSR_E_INVALID_ARGUMENT, "pipeline.cut: " + text);
}

std::span<const int32_t> inputs(const tsr_segment& s) {
  return {s.inputs, s.num_inputs};
}
std::span<const int32_t> outputs(const tsr_segment& s) {
  return {s.outputs, s.num_outputs};
}
std::span<const int32_t> parameters(const tsr_segment& s) {
  return {s.parameters, s.num_parameters};
}

int64_t extent(const tsr_value& value, uint32_t name) {
  for (const tsr_dim& dim : std::span(value.dims, value.num_dims))
    if (dim.name == name) return dim.extent;
  return 1;
}

bool multiplies_by_parameters(uint32_t kind) {
  const op::OpEntry* entry = op::find_op(kind);
  return entry && entry->multiplies_by_parameters();
}

/// The segments from the first that writes or reads a value (or a unit's parameters) to the last that reads it.
struct LiveRange {
  int first = -1, last = -1;
  void extend(int segment) {
    if (first < 0) first = segment;
    last = segment;
  }
  bool crosses(int cut) const { return first >= 0 && first < cut && cut <= last; }
};

/// One LiveRange per unit of several parameters: a parameter that several parts use is a unit of its own.
std::vector<LiveRange> unit_ranges(const ProgramView& view) {
  std::vector<LiveRange> live_ranges(view.units().size());
  std::vector<int> num_parameters(view.units().size());
  for (const tsr_parameter& parameter : view.parameters())
    ++num_parameters[static_cast<size_t>(parameter.unit)];
  for (size_t s = 0; s < view.segments().size(); ++s)
    for (const int32_t p : parameters(view.segments()[s])) {
      const auto unit = static_cast<size_t>(view.parameters()[static_cast<size_t>(p)].unit);
      if (num_parameters[unit] > 1) live_ranges[unit].extend(static_cast<int>(s));
    }
  return live_ranges;
}

std::vector<LiveRange> value_ranges(const ProgramView& view) {
  std::vector<LiveRange> live_ranges(view.values().size());
  for (size_t s = 0; s < view.segments().size(); ++s)
    for (const auto values : {outputs(view.segments()[s]), inputs(view.segments()[s])})
      for (const int32_t v : values)
        if (view.values()[static_cast<size_t>(v)].kind == TSR_VALUE_ACTIVATION)
          live_ranges[static_cast<size_t>(v)].extend(static_cast<int>(s));
  return live_ranges;
}

/// The ranges of segments between cut points: range i begins at begins[i].
struct SegmentRanges {
  std::vector<int> begins;
  std::vector<int> values;  // the value that enters each range; -1: none
  int end;                  // of the model

  size_t count() const { return begins.size(); }
  int end_of(size_t i) const { return i + 1 < begins.size() ? begins[i + 1] : end; }
};

SegmentRanges segment_ranges(const ProgramView& view) {
  SegmentRanges result{{0}, {-1}, static_cast<int>(view.segments().size())};
  for (const CutPoint& point : cut_points(view)) {
    result.begins.push_back(point.segment);
    result.values.push_back(point.value);
  }
  return result;
}

std::string names_of(const ProgramView& view, const SegmentRanges& ranges) {
  constexpr size_t kMost = 16;
  std::string names;
  for (size_t i = 1; i < ranges.count(); ++i) {
    if (ranges.count() > kMost && i == kMost / 2) {
      names += ", ...";
      i = ranges.count() - kMost / 2;
    }
    names += (i > 1 ? ", " : "") + to_string(view.segments()[static_cast<size_t>(ranges.begins[i])].name);
  }
  return names;
}

/// The cost of a partition: its most expensive part, then its imbalance.
struct PartitionCost {
  double largest = std::numeric_limits<double>::infinity();
  double squares = std::numeric_limits<double>::infinity();
  auto operator<=>(const PartitionCost&) const = default;
};

/// Returns the first range of each part, minimizing the cost of the most expensive part.
std::vector<size_t> balance(const std::vector<double>& costs, size_t num_virtual_stages) {
  const size_t n = costs.size();
  std::vector<double> before(n + 1, 0);
  for (size_t i = 0; i < n; ++i)
    before[i + 1] = before[i] + costs[i];
  // best[k][i]: the first i ranges in k parts; from[k][i]: where the last part begins.
  std::vector<std::vector<PartitionCost>> best(num_virtual_stages + 1, std::vector<PartitionCost>(n + 1));
  std::vector<std::vector<size_t>> from(num_virtual_stages + 1, std::vector<size_t>(n + 1, 0));
  best[0][0] = {0, 0};
  for (size_t k = 1; k <= num_virtual_stages; ++k)
    for (size_t i = k; i <= n; ++i)
      for (size_t j = k - 1; j < i; ++j) {
        const double last = before[i] - before[j];
        // Sums of squares break ties: they are smaller for more even parts.
        const PartitionCost with{std::max(best[k - 1][j].largest, last), best[k - 1][j].squares + last * last};
        if (with < best[k][i]) {
          best[k][i] = with;
          from[k][i] = j;
        }
      }
  std::vector<size_t> firsts(num_virtual_stages);
  size_t end = n;
  for (size_t k = num_virtual_stages; k > 0; --k)
    firsts[k - 1] = end = from[k][end];
  return firsts;
}

std::vector<size_t> partition_by_cost(const ProgramView& view, const SegmentRanges& ranges, size_t num_virtual_stages) {
  std::vector<double> costs(ranges.count(), 0);
  for (size_t i = 0; i < ranges.count(); ++i)
    for (int s = ranges.begins[i]; s < ranges.end_of(i); ++s)
      costs[i] += cost_of(view, view.segments()[static_cast<size_t>(s)]);
  return balance(costs, num_virtual_stages);
}

/// The ranges that are blocks: those with the most frequent list of ops.
std::vector<size_t> blocks_of(const ProgramView& view, const SegmentRanges& ranges) {
  std::map<std::vector<uint32_t>, std::vector<size_t>> by_ops;
  for (size_t i = 0; i < ranges.count(); ++i) {
    std::vector<uint32_t> ops;
    for (int s = ranges.begins[i]; s < ranges.end_of(i); ++s)
      ops.push_back(view.segments()[static_cast<size_t>(s)].op->kind);
    by_ops[ops].push_back(i);
  }
  return std::ranges::max_element(by_ops, {}, [](const auto& entry) { return entry.second.size(); })->second;
}

std::vector<size_t> partition_evenly(const ProgramView& view, const SegmentRanges& ranges, size_t num_virtual_stages) {
  const std::vector<size_t> blocks = blocks_of(view, ranges);
  if (blocks.size() % num_virtual_stages != 0) {
    std::string fitting;
    for (size_t n = 1; n <= blocks.size(); ++n)
      if (blocks.size() % n == 0) fitting += (n > 1 ? ", " : "") + std::to_string(n);
    refuse("even cuts " + std::to_string(blocks.size()) + " blocks into " + fitting + " equal parts, not into " +
           std::to_string(num_virtual_stages) + "; use auto, or list where parts begin");
  }
  std::vector<size_t> firsts{0};
  for (size_t virtual_stage = 1; virtual_stage < num_virtual_stages; ++virtual_stage)
    firsts.push_back(blocks[virtual_stage * (blocks.size() / num_virtual_stages)]);
  return firsts;
}

/// The segment with that name, or the first one of the unit with that name; -1: none.
int segment_named(const ProgramView& view, std::string_view name) {
  for (size_t s = 0; s < view.segments().size(); ++s) {
    if (tessera::view(view.segments()[s].name) == name) return static_cast<int>(s);
  }
  for (size_t s = 0; s < view.segments().size(); ++s)
    for (const int32_t p : parameters(view.segments()[s])) {
      const tsr_parameter& parameter = view.parameters()[static_cast<size_t>(p)];
      if (tessera::view(view.units()[static_cast<size_t>(parameter.unit)].name) == name) return static_cast<int>(s);
    }
  return -1;
}

std::vector<size_t> partition_as_listed(const ProgramView& view, const SegmentRanges& ranges, std::string_view list,
                                        size_t num_virtual_stages) {
  std::vector<size_t> firsts{0};
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string name(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
    const auto found = std::ranges::find(ranges.begins, segment_named(view, name));
    if (found == ranges.begins.end() || found == ranges.begins.begin())
      refuse("a part cannot begin with '" + name + "'; it can begin with " + names_of(view, ranges));
    firsts.push_back(static_cast<size_t>(found - ranges.begins.begin()));
    if (firsts[firsts.size() - 2] >= firsts.back())
      refuse("'" + name + "' does not come after the part before it; list parts in the order of the model");
  }
  if (firsts.size() != num_virtual_stages)
    refuse("it cuts the model into " + std::to_string(firsts.size()) + " parts, not " +
           std::to_string(num_virtual_stages) + "; list the beginnings of all parts but the first, " +
           std::to_string(num_virtual_stages - 1) + " in all");
  return firsts;
}

std::vector<VirtualStage> make_virtual_stages(const SegmentRanges& ranges, const std::vector<size_t>& firsts) {
  std::vector<VirtualStage> virtual_stages;
  for (size_t i = 0; i < firsts.size(); ++i)
    virtual_stages.push_back({ranges.begins[firsts[i]],
                              i + 1 < firsts.size() ? ranges.begins[firsts[i + 1]] : ranges.end,
                              ranges.values[firsts[i]]});
  return virtual_stages;
}

}  // namespace

bool is_of_loss(const tsr_segment& segment) {
  return (segment.flags & TSR_SEGMENT_TAIL) != 0;
}

double cost_of(const ProgramView& view, const tsr_segment& segment) {
  double elements = 0;
  for (const auto values : {inputs(segment), outputs(segment)})
    for (const int32_t v : values)
      elements += static_cast<double>(view.values()[static_cast<size_t>(v)].num_elements);
  double operations = elements * kOperationsPerElement;
  const tsr_value& first = view.values()[static_cast<size_t>(segment.inputs[0])];
  const auto seq = static_cast<double>(extent(first, TSR_DIM_SEQ));
  const double tokens = static_cast<double>(extent(first, TSR_DIM_BATCH)) * seq;
  if (multiplies_by_parameters(segment.op->kind))
    for (const int32_t p : parameters(segment)) {
      const tsr_parameter& parameter = view.parameters()[static_cast<size_t>(p)];
      if (parameter.num_dims > 1) operations += 2 * tokens * static_cast<double>(parameter.num_elements);
    }
  if (segment.op->kind == TSR_OP_ATTENTION)  // scores and their sum of values, each of half the pairs of tokens
    operations += 2 * seq * static_cast<double>(view.values()[static_cast<size_t>(segment.outputs[0])].num_elements);
  return operations;
}

std::vector<CutPoint> cut_points(const ProgramView& view) {
  const std::vector<LiveRange> values = value_ranges(view), units = unit_ranges(view);
  std::vector<CutPoint> points;
  for (int cut = 1; cut < static_cast<int>(view.segments().size()); ++cut) {
    if (is_of_loss(view.segments()[static_cast<size_t>(cut)])) break;
    const auto crosses = [cut](const LiveRange& range) { return range.crosses(cut); };
    if (std::ranges::count_if(values, crosses) != 1 || std::ranges::any_of(units, crosses)) continue;
    points.push_back({cut, static_cast<int>(std::ranges::find_if(values, crosses) - values.begin())});
  }
  return points;
}

std::vector<VirtualStage> partition_model(const ProgramView& view, std::string_view how, int num_virtual_stages) {
  const SegmentRanges ranges = segment_ranges(view);
  const auto n = static_cast<size_t>(num_virtual_stages);
  if (n > ranges.count())
    refuse("the model can be cut into at most " + std::to_string(ranges.count()) + " parts, not " +
           std::to_string(num_virtual_stages) + " (ranks of the axis times pipeline.virtual-stages)");
  std::vector<size_t> firsts;
  if (how == "auto")
    firsts = partition_by_cost(view, ranges, n);
  else if (how == "even")
    firsts = partition_evenly(view, ranges, n);
  else
    firsts = partition_as_listed(view, ranges, how, n);
  return make_virtual_stages(ranges, firsts);
}

std::vector<std::vector<int32_t>> stages_by_layout(const ProgramView& view) {
  std::vector<std::vector<int32_t>> stages(view.parameters().size());
  for (const tsr_layout_entry& entry : view.layout())
    if (entry.axis == view.raw.axis && entry.parameter >= 0)
      stages[static_cast<size_t>(entry.parameter)] = {entry.coordinates, entry.coordinates + entry.num_coordinates};
  return stages;
}

/// Consecutive parts are on consecutive stages. A range belongs to the current part if all its parameters are on that
/// stage, else it begins the next part.
std::vector<VirtualStage> virtual_stages_of_layout(const ProgramView& view, int num_virtual_stages) {
  const SegmentRanges ranges = segment_ranges(view);
  const auto stages = stages_by_layout(view);
  std::vector<size_t> firsts{0};
  const auto stands_on = [&](size_t range, size_t virtual_stage) {
    const auto stage = static_cast<int32_t>(virtual_stage) % view.axis().num_ranks;
    for (int s = ranges.begins[range]; s < ranges.end_of(range); ++s)
      for (const int32_t p : parameters(view.segments()[static_cast<size_t>(s)])) {
        const auto& of_parameter = stages[static_cast<size_t>(p)];
        if (!of_parameter.empty() && std::ranges::find(of_parameter, stage) == of_parameter.end()) return false;
      }
    return true;
  };
  bool fits = stands_on(0, 0);
  for (size_t i = 1; i < ranges.count(); ++i) {
    if (stands_on(i, firsts.size() - 1)) continue;
    firsts.push_back(i);
    fits = fits && stands_on(i, firsts.size() - 1);
  }
  if (!fits || firsts.size() != static_cast<size_t>(num_virtual_stages))
    throw Error(TSR_E_UNSUPPORTED,
                "pipeline.cut: with this tensor parallelism the model cannot be cut there, because more than one value "
                "would have to be sent; it can be cut before " +
                    names_of(view, ranges));
  return make_virtual_stages(ranges, firsts);
}

}  // namespace tessera::pipeline
