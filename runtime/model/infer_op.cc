// Extents by unification: the first operand that has a dim of the op's entry binds it, all later ones must agree, and
// the outputs are read off. Applied to x [2, 8, 16], w [16, 32] and b [32], the entry of `linear`
//
//     p0[I,O] p1?has_bias[O] i0[B,T,I] -> o0?activation[B,T,O]=sum(I)
//
// binds B = 2, T = 8, I = 16, O = 32; its output is [2, 8, 32], has_bias is 1, and it sums over what x's last dim is
// named after. Names travel with extents, so that a strategy that splits heads finds every op that has them.
//
// One dim of the entry may be a product, "3*H*D": 3 blocks of H times D columns, of which H may be cut; D is then the
// dim's granule. A model without sequences has no T: its values are [B, ...], and the op has SEQ 1. Cost: the dims of
// one entry.

#include "model/infer_op.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/concat.h"
#include "tessera/error.hpp"
#include "tessera/op_table.hpp"

namespace tessera::host {
namespace {

constexpr const char* kDimNames[] = {"-",         "BATCH",    "SEQ", "HEADS", "EMBED",    "FFN",    "VOCAB",
                                     "POSITIONS", "HEAD_DIM", "IN",  "OUT",   "ELEMENTS", "CLASSES"};  // by TSR_DIM_*

std::string text_of(std::span<const tsr_dim> dims) {
  std::string text;
  for (const tsr_dim& dim : dims)
    text += concat(text.empty() ? "" : ", ", dim.extent);
  return "[" + text + "]";
}

bool is_same(const tsr_dim& a, const tsr_dim& b) {
  return a.name == b.name && a.extent == b.extent && a.blocks == b.blocks && a.granule == b.granule;
}

class Unifier {
 public:
  Unifier(const op::OpEntry& entry, const OpOperands& operands) : entry_(entry), operands_(operands) {}

  InferredOp run() {
    bind_all(TSR_ROLE_PARAMETER, operands_.parameters, "parameters");
    bind_all(TSR_ROLE_INPUT, operands_.inputs, "inputs");
    write_op();
    for (const op::OperandEntry& operand : entry_.operands) {
      if (operand.role == TSR_ROLE_OUTPUT)
        inferred_.outputs.push_back({read_off(operand), operand.type == op::OperandType::float32});
      if (operand.is_alias) inferred_.shares_gradient = static_cast<int>(operand.index);
    }
    if (const uint32_t name = entry_.contracted < 0 ? 0 : bound_.at(entry_.contracted).dim.name)
      inferred_.contractions.push_back({name, entry_.reduce});
    inferred_.is_row_wise = !entry_.has_products() && entry_.contracted < 0 && !entry_.is_tail;
    return std::move(inferred_);
  }

 private:
  struct Bound {
    tsr_dim dim;
    const Operand* by;
  };

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw Error(TSR_E_INVALID_ARGUMENT, concat("op ", entry_.name(), ": ", parts...));
  }

  void bind_all(uint32_t role, const std::vector<Operand>& operands, const char* what) {
    size_t num_needed = 0, num_known = 0;
    for (const op::OperandEntry& operand : entry_.operands) {
      if (operand.role != role) continue;
      if (num_known++ < operands.size()) bind(operand, operands[num_known - 1]);
      // Those that may be absent are the last of their role.
      if (operand.exists.attribute < 0)
        num_needed = num_known;
      else
        inferred_.op.attributes[operand.exists.attribute] = num_known <= operands.size();
    }
    if (operands.size() < num_needed || operands.size() > num_known)
      refuse("takes ", num_needed, num_needed == num_known ? "" : concat(" to ", num_known), " ", what, ", not ",
             operands.size());
  }

  void bind(const op::OperandEntry& entry, const Operand& operand) {
    const std::vector<int> dims = dims_for(entry, operand);
    for (size_t i = 0, at = 0; i < dims.size(); ++i, ++at) {
      const tsr_dim& dim = operand.dims[at];
      if (i + 1 < dims.size() && dims[i + 1] == TSR_DIM_HEAD_DIM)
        bind_heads(entry, dim, operand), ++i;
      else
        bind(dims[i], dim, operand);
    }
  }

  /// The dims of the entry that the operand has; a product counts as one.
  std::vector<int> dims_for(const op::OperandEntry& entry, const Operand& operand) {
    std::vector<int> dims(entry.dims.begin(), entry.dims.end());
    const auto num_dims = [&] { return dims.size() - static_cast<size_t>(std::ranges::count(dims, TSR_DIM_HEAD_DIM)); };
    if (const auto seq = std::ranges::find(dims, TSR_DIM_SEQ); seq != dims.end()) {
      const bool has_seq = num_dims() <= operand.dims.size();
      if (!has_seq) dims.erase(seq);
      if (has_seq_.value_or(has_seq) != has_seq)
        refuse(operand.name, " ", text_of(operand.dims), " has ", has_seq ? "a" : "no",
               " sequence, unlike the operands before it");
      has_seq_ = has_seq;
    }
    if (num_dims() != operand.dims.size())
      refuse(operand.name, " ", text_of(operand.dims), " has ", operand.dims.size(), " dims, not ", num_dims());
    return dims;
  }

  void bind(int dim_of_op, const tsr_dim& dim, const Operand& operand) {
    const auto [known, is_new] = bound_.try_emplace(dim_of_op, Bound{dim, &operand});
    if (is_new || is_same(known->second.dim, dim)) return;
    const Operand& other = *known->second.by;
    refuse(operand.name, " ", text_of(operand.dims), " does not go with ", other.name, " ", text_of(other.dims), ": ",
           kDimNames[dim_of_op], " is ", dim.extent, " in the one and ", known->second.dim.extent, " in the other",
           dim.extent == known->second.dim.extent ? " but of another name, or cut in another way" : "");
  }

  void bind_heads(const op::OperandEntry& entry, const tsr_dim& dim, const Operand& operand) {
    const auto blocks = static_cast<uint32_t>(entry.factor);
    if (dim.blocks != blocks || dim.extent % (blocks * dim.granule) != 0)
      refuse(operand.name, " ", text_of(operand.dims), " has ", dim.extent, " columns in ", dim.blocks,
             dim.blocks == 1 ? " block" : " blocks", " of heads of ", dim.granule, "; ", blocks, " blocks are needed");
    bind(TSR_DIM_HEADS, {dim.name, 1, dim.extent / blocks / dim.granule, 1}, operand);
    bind(TSR_DIM_HEAD_DIM, {0, 1, dim.granule, 1}, operand);
  }

  std::vector<tsr_dim> read_off(const op::OperandEntry& entry) const {
    std::vector<tsr_dim> dims;
    for (const int dim : entry.dims) {
      if (dim == TSR_DIM_SEQ && !bound_.contains(dim)) continue;
      const tsr_dim& bound = bound_.at(dim).dim;
      if (dim != TSR_DIM_HEAD_DIM) {
        dims.push_back(bound);
        continue;
      }
      tsr_dim& heads = dims.back();
      heads.blocks = static_cast<uint32_t>(entry.factor);
      heads.extent *= heads.blocks * bound.extent;
      heads.granule = bound.extent;
    }
    return dims;
  }

  void write_op() {
    tsr_op& op = inferred_.op;
    op.struct_size = sizeof op;
    op.kind = entry_.kind;
    op.dims[TSR_DIM_SEQ] = 1;
    for (const auto& [dim, bound] : bound_) {
      op.dims[dim] = bound.dim.extent;
      inferred_.dim_names[dim] = bound.dim.name;
    }
    // Without a split they are those of the whole vocabulary; passes/shard_model.cc writes those of a part.
    if (bound_.contains(TSR_DIM_VOCAB))
      op.attributes[TSR_ATTR_VOCAB_COUNT] = op.attributes[TSR_ATTR_VOCAB_TOTAL] =
          static_cast<double>(op.dims[TSR_DIM_VOCAB]);
  }

  const op::OpEntry& entry_;
  const OpOperands& operands_;
  std::map<int, Bound> bound_;  // by TSR_DIM_*
  std::optional<bool> has_seq_;
  InferredOp inferred_;
};

}  // namespace

InferredOp infer_op(uint32_t kind, const OpOperands& operands) {
  const op::OpEntry* entry = op::find_op(kind);
  if (!entry || !entry->is_segment_op())
    throw Error(TSR_E_NOT_FOUND,
                concat("op ", entry ? entry->name() : std::to_string(kind), " is not one that a model is built of"));
  return Unifier(*entry, operands).run();
}

}  // namespace tessera::host
