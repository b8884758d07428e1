// Extents by unification: the first operand that has a letter binds it, all later ones must agree, and the outputs are
// read off. Applied to x [2, 8, 16], w [16, 32] and b [32], the entry of `linear`
//
//     parameters "IO O?"   inputs "BTI"   outputs "BTO"   contracted I
//
// binds B = 2, T = 8, I = 16, O = 32; its output is [2, 8, 32], its bias is there, and it sums over the dim that x's
// last one is named after. Names travel with extents, so that a strategy that splits heads finds every op that has
// them. Cost: the letters of one entry.

#include "model/op_shape.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/text.h"
#include "tessera/error.hpp"
#include "tessera/operands.hpp"

namespace tessera::host {
namespace {

// The dims of docs/plugin-abi.md, section 5.
constexpr OpShape kOps[] = {
    {.kind = TSR_OP_TOKEN_EMBEDDING, .parameters = "VC", .inputs = "BT", .outputs = "BTC", .contracted = 'V'},
    {.kind = TSR_OP_POSITION_EMBEDDING,
     .parameters = "PC",
     .inputs = "BTC",
     .outputs = "BTC",
     .shares_gradient = 0,
     .works_by_rows = true},
    {.kind = TSR_OP_LAYER_NORM, .parameters = "C C", .inputs = "BTC", .outputs = "BTC", .works_by_rows = true},
    {.kind = TSR_OP_LINEAR, .parameters = "IO O?", .inputs = "BTI", .outputs = "BTO", .contracted = 'I'},
    {.kind = TSR_OP_ATTENTION, .inputs = "BT(3HD)", .outputs = "BT(HD)"},
    {.kind = TSR_OP_ADD_LAYER_NORM,
     .parameters = "C C C",
     .inputs = "BTC BTC",
     .outputs = "BTC BTC",
     .works_by_rows = true},
    {.kind = TSR_OP_ADD,
     .parameters = "C",
     .inputs = "BTC BTC",
     .outputs = "BTC",
     .shares_gradient = 1,
     .works_by_rows = true},
    {.kind = TSR_OP_LOSS, .parameters = "VC", .inputs = "BTC BT", .contracted = 'C'},
};

/// TSR_DIM_* of a letter.
int extent_of(char letter) {
  static constexpr std::pair<char, int> kExtents[] = {
      {'B', TSR_DIM_BATCH}, {'T', TSR_DIM_SEQ}, {'H', TSR_DIM_HEADS}, {'D', TSR_DIM_HEAD_DIM}, {'C', TSR_DIM_EMBED},
      {'I', TSR_DIM_IN},    {'O', TSR_DIM_OUT}, {'V', TSR_DIM_VOCAB}, {'P', TSR_DIM_POSITIONS}};
  return std::ranges::find(kExtents, letter, &std::pair<char, int>::first)->second;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> result;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    result.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

/// One dim of a word: a letter, or the letters between parentheses.
std::vector<std::string_view> dims_of(std::string_view word) {
  std::vector<std::string_view> result;
  for (size_t i = 0; i < word.size() && word[i] != '?'; ++i) {
    const size_t end = word[i] == '(' ? word.find(')', i) : i + 1;
    result.push_back(word[i] == '(' ? word.substr(i + 1, end - i - 1) : word.substr(i, 1));
    if (word[i] == '(') i = end;
  }
  return result;
}

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
  Unifier(const OpShape& shape, const OpOperands& operands) : shape_(shape), operands_(operands) {}

  InferredOp run() {
    bind_all(shape_.parameters, operands_.parameters, "parameters");
    bind_all(shape_.inputs, operands_.inputs, "inputs");
    InferredOp inferred;
    write_op(inferred);
    for (const std::string_view word : words(shape_.outputs))
      inferred.outputs.push_back(read_off(word));
    if (shape_.contracted) inferred.contractions.push_back({bound_.at(shape_.contracted).dim.name, TSR_REDUCE_SUM});
    return inferred;
  }

 private:
  struct Bound {
    tsr_dim dim;
    const Operand* by;
  };

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw Error(TSR_E_INVALID_ARGUMENT, concat("op ", op::op_name(shape_.kind), ": ", parts...));
  }

  void bind_all(std::string_view text, const std::vector<Operand>& operands, const char* what) {
    const std::vector<std::string_view> all = words(text);
    const auto needed =
        static_cast<size_t>(std::ranges::count_if(all, [](std::string_view word) { return !word.ends_with('?'); }));
    if (operands.size() < needed || operands.size() > all.size())
      refuse("takes ", needed, needed == all.size() ? "" : concat(" to ", all.size()), " ", what, ", not ",
             operands.size());
    for (size_t i = 0; i < operands.size(); ++i)
      bind(all[i], operands[i]);
  }

  void bind(std::string_view word, const Operand& operand) {
    std::vector<std::string_view> dims = dims_of(word);
    if (word.starts_with("BT")) {
      const bool has_seq = dims.size() <= operand.dims.size();
      if (!has_seq) dims.erase(dims.begin() + 1);
      if (!has_seq_) has_seq_ = has_seq;
      if (has_seq != *has_seq_)
        refuse(operand.name, " ", text_of(operand.dims), " has ", has_seq ? "a" : "no",
               " sequence, unlike the operands before it");
    }
    if (dims.size() != operand.dims.size())
      refuse(operand.name, " ", text_of(operand.dims), " has ", operand.dims.size(), " dims, and ", word, " needs ",
             dims.size());
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims[i].size() == 1)
        bind(dims[i][0], operand.dims[i], operand);
      else
        bind_product(dims[i], operand.dims[i], operand);
  }

  void bind(char letter, const tsr_dim& dim, const Operand& operand) {
    const auto [known, is_new] = bound_.try_emplace(letter, Bound{dim, &operand});
    if (is_new || is_same(known->second.dim, dim)) return;
    const Operand& other = *known->second.by;
    refuse(operand.name, " ", text_of(operand.dims), " does not go with ", other.name, " ", text_of(other.dims),
           ": the dim ", letter, " is ", dim.extent, " in the one and ", known->second.dim.extent, " in the other",
           dim.extent == known->second.dim.extent ? " but of another name, or cut in another way" : "");
  }

  /// "3HD": blocks, what may be cut, and the granule.
  void bind_product(std::string_view factors, const tsr_dim& dim, const Operand& operand) {
    const uint32_t blocks = blocks_of(factors);
    if (dim.blocks != blocks || dim.extent % (blocks * dim.granule) != 0)
      refuse(operand.name, " ", text_of(operand.dims), " has ", dim.extent, " columns in ", dim.blocks,
             " blocks of multiples of ", dim.granule, ", and (", factors, ") needs ", blocks, " blocks");
    const char cut = factors[factors.size() - 2], granule = factors.back();
    bind(cut, {dim.name, 1, dim.extent / blocks / dim.granule, 1}, operand);
    bind(granule, {0, 1, dim.granule, 1}, operand);
  }

  static uint32_t blocks_of(std::string_view factors) {
    return factors.size() == 3 ? static_cast<uint32_t>(factors[0] - '0') : 1;
  }

  std::vector<tsr_dim> read_off(std::string_view word) const {
    std::vector<tsr_dim> dims;
    for (const std::string_view factors : dims_of(word)) {
      if (factors == "T" && !bound_.contains('T')) continue;
      if (factors.size() == 1) {
        dims.push_back(bound_.at(factors[0]).dim);
        continue;
      }
      const tsr_dim &cut = bound_.at(factors[factors.size() - 2]).dim, &granule = bound_.at(factors.back()).dim;
      const uint32_t blocks = blocks_of(factors);
      dims.push_back({cut.name, blocks, blocks * cut.extent * granule.extent, granule.extent});
    }
    return dims;
  }

  void write_op(InferredOp& inferred) const {
    tsr_op& op = inferred.op;
    op.struct_size = sizeof op;
    op.kind = shape_.kind;
    op.dims[TSR_DIM_SEQ] = 1;
    for (const auto& [letter, bound] : bound_) {
      op.dims[extent_of(letter)] = bound.dim.extent;
      inferred.dim_names[extent_of(letter)] = bound.dim.name;
    }
    // Without a split they are those of the whole vocabulary; passes/local_model.cc writes those of a part.
    if (bound_.contains('V'))
      op.attributes[TSR_ATTR_VOCAB_COUNT] = op.attributes[TSR_ATTR_VOCAB_TOTAL] =
          static_cast<double>(op.dims[TSR_DIM_VOCAB]);
    if (shape_.parameters.ends_with('?'))
      op.attributes[TSR_ATTR_HAS_BIAS] = operands_.parameters.size() == words(shape_.parameters).size();
  }

  const OpShape& shape_;
  const OpOperands& operands_;
  std::map<char, Bound> bound_;
  std::optional<bool> has_seq_;
};

}  // namespace

const OpShape& shape_of_op(uint32_t kind) {
  const OpShape* found = std::ranges::find(kOps, kind, &OpShape::kind);
  if (found == std::end(kOps))
    throw Error(TSR_E_NOT_FOUND, concat("op ", op::op_name(kind), " is not one that a model is built of"));
  return *found;
}

InferredOp infer_op(const OpShape& shape, const OpOperands& operands) {
  return Unifier(shape, operands).run();
}

}  // namespace tessera::host
