// Where the model may be cut, and where it is cut. A cut goes in front of a segment if exactly one value passes it and
// no unit has parameters on both sides. In GPT-2 (cut points are drawn as |):
//
//     wte | wpe | h.0 | h.1 | ... | ln_f loss
//
// Inside of a block the residual and another value would have to be sent. The tied embedding is a unit of one
// parameter, which may be used on both sides; its gradient is completed by the host.
//
// `auto` solves the linear partition problem by dynamic programming: of all ways to cut n stretches into k parts, the
// one whose most expensive part is cheapest, and among those the most even. O(k n^2) for n of the model's blocks. Costs
// are operations of the forward, in which the head counts: a last stage with the loss gets fewer blocks.

#include "stages.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "tessera/op_table.hpp"

namespace tessera::pipeline {
namespace {

/// What moving one element costs, in operations of a matrix product: both keep the memory or the arithmetic busy.
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

/// From the segment that writes or reads first to the one that reads last; of values and of units.
struct Span {
  int first = -1, last = -1;
  void extend(int segment) {
    if (first < 0) first = segment;
    last = segment;
  }
  bool crosses(int cut) const { return first >= 0 && first < cut && cut <= last; }
};

/// One Span per unit of several parameters: a parameter that is used by several parts is a unit of its own.
std::vector<Span> unit_spans(const ProgramView& view) {
  std::vector<Span> spans(view.units().size());
  std::vector<int> num_parameters(view.units().size());
  for (const tsr_parameter& parameter : view.parameters())
    ++num_parameters[static_cast<size_t>(parameter.unit)];
  for (size_t s = 0; s < view.segments().size(); ++s)
    for (const int32_t p : parameters(view.segments()[s])) {
      const auto unit = static_cast<size_t>(view.parameters()[static_cast<size_t>(p)].unit);
      if (num_parameters[unit] > 1) spans[unit].extend(static_cast<int>(s));
    }
  return spans;
}

std::vector<Span> value_spans(const ProgramView& view) {
  std::vector<Span> spans(view.values().size());
  for (size_t s = 0; s < view.segments().size(); ++s)
    for (const auto values : {outputs(view.segments()[s]), inputs(view.segments()[s])})
      for (const int32_t v : values)
        if (view.values()[static_cast<size_t>(v)].kind == TSR_VALUE_ACTIVATION)
          spans[static_cast<size_t>(v)].extend(static_cast<int>(s));
  return spans;
}

/// The stretches between cut points: stretch i begins at begins[i].
struct Stretches {
  std::vector<int> begins;
  std::vector<int> values;  // that enters the stretch
  int end;                  // of the model

  size_t count() const { return begins.size(); }
  int end_of(size_t i) const { return i + 1 < begins.size() ? begins[i + 1] : end; }
};

Stretches stretches_of(const ProgramView& view) {
  Stretches result{{0}, {-1}, static_cast<int>(view.segments().size())};
  for (const CutPoint& point : cut_points(view)) {
    result.begins.push_back(point.segment);
    result.values.push_back(point.value);
  }
  return result;
}

std::string names_of(const ProgramView& view, const Stretches& stretches) {
  constexpr size_t kMost = 16;
  std::string names;
  for (size_t i = 1; i < stretches.count(); ++i) {
    if (stretches.count() > kMost && i == kMost / 2) {
      names += ", ...";
      i = stretches.count() - kMost / 2;
    }
    names += (i > 1 ? ", " : "") + to_string(view.segments()[static_cast<size_t>(stretches.begins[i])].name);
  }
  return names;
}

/// What a choice of cuts costs: its most expensive part, then how unequal the others are.
struct Balance {
  double largest = std::numeric_limits<double>::infinity();
  double squares = std::numeric_limits<double>::infinity();
  auto operator<=>(const Balance&) const = default;
};

/// The first stretch of each part, so that the most expensive part is as cheap as it can be.
std::vector<size_t> balance(const std::vector<double>& costs, size_t num_parts) {
  const size_t n = costs.size();
  std::vector<double> before(n + 1, 0);
  for (size_t i = 0; i < n; ++i)
    before[i + 1] = before[i] + costs[i];
  // best[k][i]: the first i stretches in k parts; from[k][i]: where the last of them begins.
  std::vector<std::vector<Balance>> best(num_parts + 1, std::vector<Balance>(n + 1));
  std::vector<std::vector<size_t>> from(num_parts + 1, std::vector<size_t>(n + 1, 0));
  best[0][0] = {0, 0};
  for (size_t k = 1; k <= num_parts; ++k)
    for (size_t i = k; i <= n; ++i)
      for (size_t j = k - 1; j < i; ++j) {
        const double last = before[i] - before[j];
        // Sums of squares break ties: they are smaller the more even the parts are.
        const Balance with{std::max(best[k - 1][j].largest, last), best[k - 1][j].squares + last * last};
        if (with < best[k][i]) {
          best[k][i] = with;
          from[k][i] = j;
        }
      }
  std::vector<size_t> firsts(num_parts);
  size_t end = n;
  for (size_t k = num_parts; k > 0; --k)
    firsts[k - 1] = end = from[k][end];
  return firsts;
}

std::vector<size_t> cut_by_cost(const ProgramView& view, const Stretches& stretches, size_t num_parts) {
  std::vector<double> costs(stretches.count(), 0);
  for (size_t i = 0; i < stretches.count(); ++i)
    for (int s = stretches.begins[i]; s < stretches.end_of(i); ++s)
      costs[i] += cost_of(view, view.segments()[static_cast<size_t>(s)]);
  return balance(costs, num_parts);
}

/// The stretches that are blocks: those of the most frequent list of operations.
std::vector<size_t> blocks_of(const ProgramView& view, const Stretches& stretches) {
  std::map<std::vector<uint32_t>, std::vector<size_t>> by_ops;
  for (size_t i = 0; i < stretches.count(); ++i) {
    std::vector<uint32_t> ops;
    for (int s = stretches.begins[i]; s < stretches.end_of(i); ++s)
      ops.push_back(view.segments()[static_cast<size_t>(s)].op);
    by_ops[ops].push_back(i);
  }
  return std::ranges::max_element(by_ops, {}, [](const auto& entry) { return entry.second.size(); })->second;
}

std::vector<size_t> cut_evenly(const ProgramView& view, const Stretches& stretches, size_t num_parts) {
  const std::vector<size_t> blocks = blocks_of(view, stretches);
  if (blocks.size() % num_parts != 0) {
    std::string fitting;
    for (size_t n = 1; n <= blocks.size(); ++n)
      if (blocks.size() % n == 0) fitting += (n > 1 ? ", " : "") + std::to_string(n);
    refuse("even cuts " + std::to_string(blocks.size()) + " blocks into " + fitting + " equal parts, not into " +
           std::to_string(num_parts) + "; use auto, or list where parts begin");
  }
  std::vector<size_t> firsts{0};
  for (size_t part = 1; part < num_parts; ++part)
    firsts.push_back(blocks[part * (blocks.size() / num_parts)]);
  return firsts;
}

/// The segment of that name, or the first one of the unit of that name; -1: there is none.
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

std::vector<size_t> cut_as_listed(const ProgramView& view, const Stretches& stretches, std::string_view list,
                                  size_t num_parts) {
  std::vector<size_t> firsts{0};
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string name(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
    const auto found = std::ranges::find(stretches.begins, segment_named(view, name));
    if (found == stretches.begins.end() || found == stretches.begins.begin())
      refuse("a part cannot begin with '" + name + "'; it can with " + names_of(view, stretches));
    firsts.push_back(static_cast<size_t>(found - stretches.begins.begin()));
    if (firsts[firsts.size() - 2] >= firsts.back())
      refuse("'" + name + "' does not come after the part before it; list parts in the order of the model");
  }
  if (firsts.size() != num_parts)
    refuse("it cuts the model into " + std::to_string(firsts.size()) + " parts, not " + std::to_string(num_parts) +
           "; list where each but the first begins, " + std::to_string(num_parts - 1) + " in all");
  return firsts;
}

std::vector<Part> make_parts(const Stretches& stretches, const std::vector<size_t>& firsts) {
  std::vector<Part> parts;
  for (size_t i = 0; i < firsts.size(); ++i)
    parts.push_back({stretches.begins[firsts[i]],
                     i + 1 < firsts.size() ? stretches.begins[firsts[i + 1]] : stretches.end,
                     stretches.values[firsts[i]]});
  return parts;
}

}  // namespace

bool is_of_loss(const tsr_segment& segment) {
  const op::OpEntry* entry = op::find_op(segment.op);
  return entry && entry->is_tail;
}

double cost_of(const ProgramView& view, const tsr_segment& segment) {
  double elements = 0;
  for (const auto values : {inputs(segment), outputs(segment)})
    for (const int32_t v : values)
      elements += static_cast<double>(view.values()[static_cast<size_t>(v)].num_elements);
  double operations = elements * kOperationsPerElement;
  const tsr_value& first = view.values()[static_cast<size_t>(segment.inputs[0])];
  const auto seq = static_cast<double>(extent(first, TSR_NAME_SEQ));
  const double tokens = static_cast<double>(extent(first, TSR_NAME_BATCH)) * seq;
  if (multiplies_by_parameters(segment.op))
    for (const int32_t p : parameters(segment)) {
      const tsr_parameter& parameter = view.parameters()[static_cast<size_t>(p)];
      if (parameter.num_dims > 1) operations += 2 * tokens * static_cast<double>(parameter.num_elements);
    }
  if (segment.op == TSR_OP_ATTENTION)  // scores and their sum of values, each of half the pairs of tokens
    operations += 2 * seq * static_cast<double>(view.values()[static_cast<size_t>(segment.outputs[0])].num_elements);
  return operations;
}

std::vector<CutPoint> cut_points(const ProgramView& view) {
  const std::vector<Span> values = value_spans(view), units = unit_spans(view);
  std::vector<CutPoint> points;
  for (int cut = 1; cut < static_cast<int>(view.segments().size()); ++cut) {
    if (is_of_loss(view.segments()[static_cast<size_t>(cut)])) break;
    const auto crosses = [cut](const Span& span) { return span.crosses(cut); };
    if (std::ranges::count_if(values, crosses) != 1 || std::ranges::any_of(units, crosses)) continue;
    points.push_back({cut, static_cast<int>(std::ranges::find_if(values, crosses) - values.begin())});
  }
  return points;
}

std::vector<Part> cut_model(const ProgramView& view, std::string_view how, int num_parts) {
  const Stretches stretches = stretches_of(view);
  const auto n = static_cast<size_t>(num_parts);
  if (n > stretches.count())
    refuse("the model can be cut into at most " + std::to_string(stretches.count()) + " parts, not " +
           std::to_string(num_parts) + " (ranks of the axis times pipeline.virtual-stages)");
  std::vector<size_t> firsts;
  if (how == "auto")
    firsts = cut_by_cost(view, stretches, n);
  else if (how == "even")
    firsts = cut_evenly(view, stretches, n);
  else
    firsts = cut_as_listed(view, stretches, how, n);
  return make_parts(stretches, firsts);
}

std::vector<std::vector<int32_t>> stages_by_layout(const ProgramView& view) {
  std::vector<std::vector<int32_t>> stages(view.parameters().size());
  for (const tsr_split& split : view.splits())
    if (split.axis == view.raw.axis && split.parameter >= 0)
      stages[static_cast<size_t>(split.parameter)] = {split.coordinates, split.coordinates + split.num_coordinates};
  return stages;
}

/// Parts follow one another, each on the next stage. A stretch belongs to the part before it if all its parameters are
/// on that stage, else it begins the next part.
std::vector<Part> parts_of_layout(const ProgramView& view, int num_parts) {
  const Stretches stretches = stretches_of(view);
  const auto stages = stages_by_layout(view);
  std::vector<size_t> firsts{0};
  const auto stands_on = [&](size_t stretch, size_t part) {
    const auto stage = static_cast<int32_t>(part) % view.axis().num_ranks;
    for (int s = stretches.begins[stretch]; s < stretches.end_of(stretch); ++s)
      for (const int32_t p : parameters(view.segments()[static_cast<size_t>(s)])) {
        const auto& of_parameter = stages[static_cast<size_t>(p)];
        if (!of_parameter.empty() && std::ranges::find(of_parameter, stage) == of_parameter.end()) return false;
      }
    return true;
  };
  bool fits = stands_on(0, 0);
  for (size_t i = 1; i < stretches.count(); ++i) {
    if (stands_on(i, firsts.size() - 1)) continue;
    firsts.push_back(i);
    fits = fits && stands_on(i, firsts.size() - 1);
  }
  if (!fits || firsts.size() != static_cast<size_t>(num_parts))
    throw Error(
        TSR_E_UNSUPPORTED,
        "pipeline.cut: with tensors split as they are, the model cannot be cut there: more than one value would "
        "have to be passed on; it can in front of " +
            names_of(view, stretches));
  return make_parts(stretches, firsts);
}

}  // namespace tessera::pipeline
