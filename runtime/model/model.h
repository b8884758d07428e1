// A model as the program sees it: parameters in units, values, and segments that compute values from values. It says
// nothing of ranks, memory or time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/program.h"
#include "tessera/ranges.hpp"

namespace tessera::host {

/// Every parameter starts on a multiple of this many elements of its unit's flat buffers.
inline constexpr uint64_t kParameterAlignment = 128;

/// Elements of a whole parameter that are contiguous in a rank's part of it.
struct ParameterPiece {
  uint64_t whole_offset = 0;
  uint64_t num_elements = 0;
  uint64_t local_offset = 0;
};

/// This rank's part of a parameter that is split.
struct ParameterPart {
  uint64_t whole_elements = 0;  ///< of the whole parameter
  std::vector<ParameterPiece> pieces;
};

/// How the elements of a parameter start: mean + standard_deviation * normal number. A deviation of 0 gives the
/// constant `mean`.
struct InitialRule {
  float mean = 0;
  float standard_deviation = 0;

  bool operator==(const InitialRule&) const = default;
};

/// A named tensor with Hugging Face's name and shape; in a local model (passes/shard_model.h) this rank's part of it.
struct Parameter {
  std::string name;
  std::vector<tsr_dim> dims;
  int unit = -1;
  uint64_t num_elements = 0;
  uint64_t unit_offset = 0;  ///< elements from the start of the unit's flat buffers
  bool trainable = true;
  std::optional<ParameterPart> part = {};
  int rows_axis = -1;  ///< in a local model: its gradient is that of this rank's rows, to be summed over this axis
  InitialRule initial = {};

  std::vector<int64_t> shape() const;
  /// In its unit's flat buffers.
  uint64_t padded_elements() const { return round_up(num_elements, kParameterAlignment); }
};

/// Parameters that are sharded together, laid out once: in model order, trainable then frozen.
struct Unit {
  std::string name;
  uint64_t num_elements = 0;    ///< of the unit's flat buffers, pads included
  std::vector<int> parameters;  ///< in layout order
};

/// A dim of a value of which an axis gives each rank a part: TSR_DIM_*, or ROWS of all of them.
struct ValueSplit {
  int axis = -1;
  uint32_t dim = 0;
};

/// What flows between segments; one buffer a micro-batch. An input's name says what the data gives: "tokens".
struct Value {
  std::string name;
  std::vector<tsr_dim> dims;
  uint32_t kind = TSR_VALUE_ACTIVATION;
  tsr_dtype dtype = TSR_F32;
  int gradient_of = -1;  ///< its gradient is the buffer of that value's gradient
  uint64_t num_elements = 0;
  int same_as = -1;                     ///< in a local model: this whole value is that one in rows; -1: none
  std::vector<ValueSplit> splits = {};  ///< in a local model
};

/// The smallest compute between two places where a collective may be inserted. `op` has kind, dims and attributes set.
struct Segment {
  std::string name;
  tsr_op op{};
  std::vector<int> parameters;
  std::vector<int> inputs;
  std::vector<int> outputs;
  std::vector<tsr_contraction> contractions;
  int block = -1;                                  ///< which transformer block it belongs to; -1: none
  std::array<uint32_t, TSR_NUM_DIMS> dim_names{};  ///< TSR_DIM_* of op.dims; 0: none
  bool has_backward = true;
  bool is_row_wise = false;  ///< does the same to every row (token), whatever the others are
};

struct Model {
  std::vector<Parameter> parameters;
  std::vector<Unit> units;
  std::vector<Value> values;
  std::vector<Segment> segments;  ///< in forward order; the last one is the loss
  int64_t batch = 0, seq = 0;     ///< of one rank's micro-batch

  const Segment& loss() const { return segments.back(); }
  /// Indices of the values that are filled from outside: all that no segment computes.
  std::vector<int> inputs() const;
  /// Index; throws NOT_FOUND.
  int parameter(std::string_view name) const;
  int segment(std::string_view name) const;
  /// Transformer blocks, counted over the segments.
  int num_blocks() const;
  /// Elements of all parameters, without pads.
  uint64_t num_parameter_elements() const;
  uint64_t num_trainable_elements() const;
};

/// Gives every unit its flat layout from its parameters' order, trainability and sizes.
void lay_out_units(Model& model);

}  // namespace tessera::host
