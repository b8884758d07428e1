// How a model is written down: parameters, and ops applied to values, in forward order.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/model.h"

namespace tessera::host {

/// What a micro-batch looks like, and the one scale of the loss: 1 / (tokens, or examples, of the whole step over all
/// data ranks).
struct BatchShape {
  int64_t batch = 1;
  int64_t seq = 1;  ///< 0: the model has no sequences
  double loss_scale = 1.0;
  tsr_dtype dtype = TSR_F32;  ///< of values and of the parameters that are computed with; gradients are float32
};

/// One dim of a tensor; see tsr_dim.
tsr_dim make_dim(uint32_t name, int64_t extent, uint32_t blocks = 1, int64_t granule = 1);

/// An op of a model. The names are those of its segment and its outputs; the parameters and inputs, indices of the
/// builder.
struct OpCall {
  std::string segment;
  uint32_t op = 0;  ///< TSR_OP_*
  std::vector<int> parameters = {};
  std::vector<int> inputs;
  std::vector<std::pair<int, double>> attributes = {};  ///< TSR_ATTR_*, those that do not follow from the operands
  std::vector<std::string> outputs = {};
};

/// Builds one model. Extents, dims, contractions and shared gradients follow from the entries of ops (infer_op.h): the
/// author of a model writes the dims of parameters and of what is put in, and no others.
class ModelBuilder {
 public:
  explicit ModelBuilder(const BatchShape& shape);

  /// A new unit: the parameters that are sharded together.
  int unit(std::string name);
  /// A parameter of the last unit; named as in Hugging Face's files.
  int parameter(std::string name, std::vector<tsr_dim> dims, InitialRule initial);
  /// What the data fills for each micro-batch: [batch, seq] and `columns`, or [batch] and those in a model without
  /// sequences.
  int input(std::string name, tsr_dtype dtype, std::vector<tsr_dim> columns = {});
  /// Ops from now on belong to that block; -1: to none.
  void begin_block(int block) { block_ = block; }
  /// Appends a segment, and gives its outputs. Throws INVALID_ARGUMENT, naming the segment, for operands that
  /// contradict each other and for another number of names than the op has outputs.
  std::vector<int> apply(const OpCall& call);

  /// The model; the last segment is its loss. Call it once.
  Model finish();

 private:
  int add_value(std::string name, std::vector<tsr_dim> dims, uint32_t kind, tsr_dtype dtype);

  BatchShape shape_;
  int block_ = -1;
  Model model_;
};

}  // namespace tessera::host
