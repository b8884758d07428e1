// The model that one rank computes where an axis splits tensors (decision 0013). Parameters keep their part, values and
// ops get their local extents; after that the base program, the passes and the verifiers need not know that anything is
// split. The alternative would be a base program that knows axes and looks up every extent.
//
// A dim may consist of equal blocks, each of which is cut: q, k and v of the fused c_attn. Over 2 ranks
//
//     whole     | q0 q1 | k0 k1 | v0 v1 |        blocks = 3, granule = head_dim
//     rank 0    | q0 | k0 | v0 |                 three pieces of the whole for each row of the matrix
//     rank 1    | q1 | k1 | v1 |
//
// A part is a whole number of granules of each block, so a head is never cut. Only the vocabulary is padded, at its
// end.
//
// With a split vocabulary no rank has all logits, so the loss becomes three segments with collectives between them
// (Megatron-LM, Shoeybi et al. 2019). With logits z and target t:
//
//     head_logits     z of this rank's part, and its row maximum      all_reduce max -> m
//     softmax_stats   s = sum exp(z - m), and z_t if t is here        all_reduce sum -> s, z_t
//     loss_grad       log s + m - z_t, and its gradient with respect to z
//
// Invariant: the parts of all ranks, laid side by side, are the whole model. Cost: linear in the pieces.

#include "passes/shard_model.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "tessera/error.hpp"
#include "tessera/op_table.hpp"

namespace tessera::host {
namespace {

/// Those of a home that the host knows.
constexpr uint32_t kRoles =
    1u << TSR_HOME_VALUE | 1u << TSR_HOME_MASTER | 1u << TSR_HOME_GRADIENT | 1u << TSR_HOME_M | 1u << TSR_HOME_V;

/// How the dims of one name are cut on this rank.
struct Cut {
  int axis;
  int64_t parts, coordinate;
};
using Cuts = std::map<uint32_t, Cut>;  // by TSR_DIM_*

/// Elements of a part: whole granules of every block; the last part may be padded.
int64_t part_of(const tsr_dim& dim, const Cut& cut) {
  const int64_t granules = dim.extent / dim.blocks / dim.granule;
  return (granules + cut.parts - 1) / cut.parts * dim.granule * dim.blocks;
}

uint64_t product(std::span<const tsr_dim> dims) {
  uint64_t n = 1;
  for (const tsr_dim& dim : dims)
    n *= static_cast<uint64_t>(dim.extent);
  return n;
}

class CutReader {
 public:
  CutReader(const Model& model, const Mesh& mesh, const Coordinates& coordinates)
      : model_(model), mesh_(mesh), coordinates_(coordinates) {}

  Cuts read(const Layout& layout) {
    Cuts cuts;
    for (const LayoutEntry& split : layout) {
      if (split.kind != TSR_LAYOUT_SPLIT || split.dim < 0) continue;
      const tsr_dim& dim = checked_dim(split);
      const Cut cut{split.axis, split.parts, coordinates_[split.axis]};
      const auto [known, is_new] = cuts.try_emplace(dim.name, cut);
      if (!is_new && known->second.axis != cut.axis) throw wrong(split, "is split over another axis already");
      check_parts(split, dim, cut);
      ++num_cut_[dim.name];
    }
    check_all_are_cut(cuts);
    return cuts;
  }

 private:
  Error wrong(const LayoutEntry& split, const std::string& what) const {
    return Error(TSR_E_INVALID_ARGUMENT, "the layout of axis " + mesh_.axes()[split.axis].name + ": dim " +
                                             std::to_string(split.dim) + " of " +
                                             model_.parameters[split.parameter].name + " " + what);
  }

  const tsr_dim& checked_dim(const LayoutEntry& split) const {
    const Parameter& parameter = model_.parameters[split.parameter];
    if (mesh_.axes()[split.axis].splits != TSR_SPLITS_TENSORS)
      throw wrong(split, "is split over an axis that does not split tensors");
    if (split.dim >= static_cast<int>(parameter.dims.size())) throw wrong(split, "does not exist");
    if ((split.roles & kRoles) != kRoles)
      throw wrong(
          split,
          "is split for some roles only; a rank that has a part of a tensor has that part of its gradient and of "
          "its optimizer state, so give TSR_ALL_HOME_ROLES");
    return parameter.dims[split.dim];
  }

  void check_parts(const LayoutEntry& split, const tsr_dim& dim, const Cut& cut) const {
    const bool may_be_padded = dim.name == TSR_DIM_VOCAB;
    const bool is_for_each_rank = cut.parts == mesh_.axes()[split.axis].num_ranks;  // else perhaps for none
    const uint64_t padded = is_for_each_rank ? static_cast<uint64_t>(part_of(dim, cut) * cut.parts) : 0;
    if (!is_for_each_rank || split.padded_size != padded ||
        (!may_be_padded && padded != static_cast<uint64_t>(dim.extent)))
      throw wrong(split, "has " + std::to_string(dim.extent) + " elements, which cannot be split into " +
                             std::to_string(cut.parts) + " parts of " + std::to_string(split.padded_size));
  }

  /// A dim is split in all parameters that have it, or in none: a product of a split and a whole operand would not fit.
  void check_all_are_cut(const Cuts& cuts) const {
    for (const auto& [name, cut] : cuts) {
      size_t num_dims = 0;
      for (const Parameter& parameter : model_.parameters)
        num_dims += std::ranges::count(parameter.dims, name, &tsr_dim::name);
      if (num_dims != num_cut_.at(name))
        throw Error(TSR_E_INVALID_ARGUMENT, "the layout of axis " + mesh_.axes()[cut.axis].name + " splits a dim of " +
                                                std::to_string(num_cut_.at(name)) + " parameters; " +
                                                std::to_string(num_dims) + " have it, and must be split alike");
    }
  }

  const Model& model_;
  const Mesh& mesh_;
  const Coordinates& coordinates_;
  std::map<uint32_t, size_t> num_cut_;
};

/// Sequence parallelism (Korthikanti et al. 2022): segments that work row by row, norms and residuals, compute this
/// rank's rows only. Rows are batch times sequence, flat, so that a part is contiguous and any batch will do. A value
/// that passes between such a segment and another one exists twice, whole and in rows; the pass of the tensor strategy
/// moves it.
class RowSplitter {
 public:
  RowSplitter(Model& model, const Cut& cut) : model_(model), cut_(cut) {}

  void run() {
    const size_t num_values = model_.values.size();
    whole_.assign(num_values, -1);
    for (size_t v = 0; v < num_values; ++v)
      if (is_in_rows(static_cast<int>(v))) split(static_cast<int>(v));
    for (size_t v = 0; v < num_values; ++v) {  // gradients that whole values share are those of whole values
      Value& value = model_.values[v];
      const int of = value.gradient_of;
      if (of >= 0 && !in_rows_.contains(static_cast<int>(v)) && whole_[of] >= 0) value.gradient_of = whole_[of];
    }
    for (Segment& segment : model_.segments)
      if (segment.is_row_wise) split(segment);
  }

 private:
  /// Whether a row-wise segment makes or reads it.
  bool is_in_rows(int v) const {
    return std::ranges::any_of(model_.segments, [&](const Segment& s) {
      return s.is_row_wise && (std::ranges::count(s.inputs, v) || std::ranges::count(s.outputs, v));
    });
  }

  void split(int v) {
    in_rows_.insert(v);
    for (Segment& segment : model_.segments) {
      if (segment.is_row_wise) continue;
      for (std::vector<int>* values : {&segment.inputs, &segment.outputs})
        for (int& value : *values)
          if (value == v) value = whole_of(v);
    }
    Value& value = model_.values[v];
    for (tsr_dim& dim : value.dims) {
      if (dim.name == TSR_DIM_BATCH) dim.extent = 1;
      if (dim.name == TSR_DIM_SEQ) dim.extent = model_.batch * model_.seq / cut_.parts;
    }
    value.splits.push_back({cut_.axis, TSR_DIM_ROWS});
  }

  int whole_of(int v) {
    if (whole_[v] >= 0) return whole_[v];
    Value whole = model_.values[v];
    whole.name += ".whole";
    whole.same_as = v;
    whole.gradient_of = -1;
    model_.values.push_back(std::move(whole));
    return whole_[v] = static_cast<int>(model_.values.size()) - 1;
  }

  void split(Segment& segment) {
    const int64_t num_rows = model_.batch * model_.seq / cut_.parts;
    segment.op.dims[TSR_DIM_BATCH] = 1;
    segment.op.dims[TSR_DIM_SEQ] = num_rows;
    // Position embeddings are added by row, and start over with each sequence.
    segment.op.attributes[TSR_ATTR_ROW_BEGIN] = static_cast<double>(cut_.coordinate * num_rows % model_.seq);
    segment.op.attributes[TSR_ATTR_ROW_PERIOD] = static_cast<double>(model_.seq);
    for (const int p : segment.parameters)
      model_.parameters[p].rows_axis = cut_.axis;
  }

  Model& model_;
  const Cut& cut_;
  std::vector<int> whole_;  // of each value: its whole one, or -1
  std::set<int> in_rows_;
};

/// The axis that splits the rows of values, if there is one.
std::optional<Cut> rows_cut(const Model& model, const Mesh& mesh, const Coordinates& coordinates,
                            const Layout& layout) {
  std::optional<Cut> cut;
  for (const LayoutEntry& split : layout) {
    if (split.parameter != kNamedDim) continue;
    const Axis& axis = mesh.axes()[split.axis];
    if (cut) throw Error(TSR_E_UNSUPPORTED, "two axes split the rows of values; only one may");
    if (model.batch * model.seq % axis.num_ranks != 0)
      throw Error(TSR_E_INVALID_ARGUMENT, "a micro-batch of " + std::to_string(model.batch) + " x " +
                                              std::to_string(model.seq) + " tokens does not divide into rows for the " +
                                              std::to_string(axis.num_ranks) + " ranks of axis " + axis.name +
                                              "; change --batch-size or --seq-len");
    cut = Cut{split.axis, axis.num_ranks, coordinates[split.axis]};
  }
  return cut;
}

/// Applies the cuts to a whole model.
class ModelSharder {
 public:
  ModelSharder(const Model& model, const Cuts& cuts, std::optional<Cut> rows)
      : model_(model), cuts_(cuts), rows_(rows) {}

  Model run() {
    if (cuts_.contains(TSR_DIM_VOCAB) && model_.segments.back().op.kind == TSR_OP_LOSS) split_loss();
    if (rows_) RowSplitter(model_, *rows_).run();
    for (Parameter& parameter : model_.parameters)
      cut(parameter);
    for (Value& value : model_.values) {
      for (const tsr_dim& dim : value.dims)
        if (const Cut* cut = find(dim.name)) value.splits.push_back({cut->axis, dim.name});
      cut(value.dims);
      value.num_elements = product(value.dims);
    }
    for (Segment& segment : model_.segments)
      cut(segment);
    lay_out_units(model_);
    return std::move(model_);
  }

 private:
  const Cut* find(uint32_t name) const {
    const auto found = cuts_.find(name);
    return found == cuts_.end() ? nullptr : &found->second;
  }

  void cut(std::vector<tsr_dim>& dims) const {
    for (tsr_dim& dim : dims)
      if (const Cut* cut = find(dim.name)) dim.extent = part_of(dim, *cut);
  }

  void cut(Parameter& parameter) const {
    const auto dim = std::ranges::find_if(parameter.dims, [&](const tsr_dim& d) { return find(d.name); });
    if (dim == parameter.dims.end()) return;
    if (std::any_of(dim + 1, parameter.dims.end(), [&](const tsr_dim& d) { return find(d.name); }))
      throw Error(TSR_E_UNSUPPORTED, parameter.name + " is split in two dims; one is supported");
    parameter.part = {parameter.num_elements, pieces(parameter, static_cast<size_t>(dim - parameter.dims.begin()))};
    cut(parameter.dims);
    parameter.num_elements = product(parameter.dims);
  }

  /// Which elements of the whole parameter this rank has, and where they are in its part.
  std::vector<ParameterPiece> pieces(const Parameter& parameter, size_t position) const {
    const std::span<const tsr_dim> dims(parameter.dims);
    const tsr_dim& dim = dims[position];
    const Cut& cut = *find(dim.name);
    const int64_t inner = static_cast<int64_t>(product(dims.subspan(position + 1)));
    const int64_t outer = static_cast<int64_t>(product(dims.first(position)));
    const int64_t block = dim.extent / dim.blocks, local_block = part_of(dim, cut) / dim.blocks;
    const int64_t begin = cut.coordinate * local_block;
    const int64_t real = std::clamp<int64_t>(block - begin, 0, local_block);
    std::vector<ParameterPiece> pieces;
    for (int64_t o = 0; real > 0 && o < outer; ++o)
      for (int64_t b = 0; b < dim.blocks; ++b) {
        const auto whole = static_cast<uint64_t>((o * dim.extent + b * block + begin) * inner);
        const auto local = static_cast<uint64_t>((o * dim.blocks + b) * local_block * inner);
        pieces.push_back({whole, static_cast<uint64_t>(real * inner), local});
      }
    return pieces;
  }

  void cut(Segment& segment) const {
    for (size_t d = 0; d < segment.dim_names.size(); ++d) {
      const Cut* cut = find(segment.dim_names[d]);
      if (!cut) continue;
      const int64_t whole = segment.op.dims[d];
      segment.op.dims[d] = (whole + cut->parts - 1) / cut->parts;
      if (segment.dim_names[d] != TSR_DIM_VOCAB) continue;
      const int64_t begin = cut->coordinate * segment.op.dims[d];
      segment.op.attributes[TSR_ATTR_VOCAB_BEGIN] = static_cast<double>(begin);
      segment.op.attributes[TSR_ATTR_VOCAB_COUNT] =
          static_cast<double>(std::clamp<int64_t>(whole - begin, 0, segment.op.dims[d]));
    }
  }

  // ---- the loss of a split vocabulary: logits and their maximum, sums, then the loss and the logits' gradient ----

  int add_value(const std::string& name, std::vector<tsr_dim> dims) {
    model_.values.push_back({name, std::move(dims), TSR_VALUE_ACTIVATION, TSR_F32, -1, 0});
    return static_cast<int>(model_.values.size()) - 1;
  }

  Segment part_of_loss(const Segment& loss, const std::string& name, uint32_t op, tsr_dtype dtype) const {
    Segment segment = loss;
    segment.name = name;
    segment.op.kind = op;
    segment.op.dtype = dtype;
    segment.parameters.clear();
    segment.contractions.clear();
    const op::OpEntry& entry = *op::find_op(op);
    if (entry.contracted == TSR_DIM_VOCAB) segment.contractions = {{TSR_DIM_VOCAB, entry.reduce}};
    return segment;
  }

  void split_loss() {
    const Segment loss = model_.segments.back();
    model_.segments.pop_back();
    const int normed = loss.inputs[0], targets = loss.inputs[1];
    const tsr_dim vocab = model_.parameters[loss.parameters[0]].dims[0];
    const std::vector<tsr_dim> rows(model_.values[targets].dims);
    std::vector<tsr_dim> table = rows;
    table.push_back(vocab);
    const int logits = add_value("logits", table), largest = add_value("logits.max", rows);
    const int sum = add_value("logits.sum", rows), target = add_value("logits.target", rows);

    Segment head = part_of_loss(loss, "head_logits", TSR_OP_HEAD_LOGITS, loss.op.dtype);
    head.parameters = loss.parameters;
    head.inputs = {normed};
    head.outputs = {logits, largest};
    Segment stats = part_of_loss(loss, "softmax_stats", TSR_OP_SOFTMAX_STATS, TSR_F32);
    stats.inputs = {logits, largest, targets};
    stats.outputs = {sum, target};
    stats.has_backward = op::find_op(TSR_OP_SOFTMAX_STATS)->backward != op::Backward::none;
    Segment gradient = part_of_loss(loss, "loss_grad", TSR_OP_LOSS_GRAD, TSR_F32);
    gradient.inputs = {logits, largest, sum, target, targets};
    model_.segments.insert(model_.segments.end(), {head, stats, gradient});
  }

  Model model_;
  const Cuts& cuts_;
  const std::optional<Cut> rows_;
};

}  // namespace

Model shard_model(const Model& model, const Mesh& mesh, const Coordinates& coordinates, const Layout& layout) {
  const Cuts cuts = CutReader(model, mesh, coordinates).read(layout);
  const std::optional<Cut> rows = rows_cut(model, mesh, coordinates, layout);
  return cuts.empty() && !rows ? model : ModelSharder(model, cuts, rows).run();
}

}  // namespace tessera::host
