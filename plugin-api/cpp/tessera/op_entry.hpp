// SPDX-License-Identifier: Apache-2.0
// What the table of ops (op_table.hpp) knows of an op: its operands with their extents, what each half of a backward
// reads, what it contracts, and what it costs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tessera/communicator.h"
#include "tessera/device.h"

namespace tessera::op {

/// A list of at most kCapacity items that exists at compile time.
template <class T, size_t kCapacity>
struct FixedList {
  std::array<T, kCapacity> items{};
  size_t count = 0;

  constexpr void add(const T& item) { items.at(count++) = item; }
  constexpr const T* begin() const { return items.data(); }
  constexpr const T* end() const { return items.data() + count; }
  constexpr bool contains(const T& item) const {
    for (const T& other : *this)
      if (other == item) return true;
    return false;
  }
};

using DimList = FixedList<int, 6>;  ///< TSR_DIM_*

/// Whether something holds for an op, by one of its attributes.
struct Condition {
  int attribute = -1;  ///< TSR_ATTR_*; -1: always
  bool negated = false;

  constexpr bool holds(const tsr_op& op) const { return attribute < 0 || (op.attributes[attribute] != 0) != negated; }
};

/// The half of a backward that reads an operand, if it does, and when.
struct Reader {
  bool reads = false;
  Condition when;
};

enum class OperandType { values, float32, int32 };

struct OperandEntry {
  uint32_t role = 0, index = 0;  ///< TSR_ROLE_PARAMETER, INPUT, OUTPUT, SAVED; SCALAR: TSR_SCALAR_*
  uint64_t factor = 1;           ///< of the product of `dims`
  DimList dims;
  OperandType type = OperandType::values;
  bool has_gradient = true;
  bool is_alias = false;  ///< its gradient is the buffer of an output's
  Condition exists;
  bool may_be_left_out = false;  ///< of an output, when `left_out` holds
  Condition left_out;
  bool is_read_by_forward = true;
  Reader input_half, weight_half;                    ///< of the operand itself
  Reader gradient_input_half, gradient_weight_half;  ///< of an output's gradient
};

/// Backward phases that an op has.
enum class Backward { none, whole, halves };

struct OpEntry {
  uint32_t kind = 0;
  std::array<char, 24> name_text{};
  size_t name_length = 0;
  FixedList<OperandEntry, 12> operands;  ///< in the order of their slots; of segments' ops
  Backward backward = Backward::none;
  DimList whole;             ///< cannot be split over ranks
  DimList begin;             ///< attributes say which part this is
  int contracted = -1;       ///< TSR_DIM_*; -1: none
  uint32_t reduce = 0;       ///< TSR_REDUCE_SUM or TSR_REDUCE_MAX completes outputs when `contracted` is split
  uint64_t cost_factor = 0;  ///< of the product of `cost_dims`: operations of the forward
  DimList cost_dims;
  uint32_t dims = 0;        ///< bits 1 << TSR_DIM_* of those that it has; all others are 0 in an op of this kind
  uint32_t attributes = 0;  ///< bits 1 << TSR_ATTR_*, as `dims`
  bool is_float32_only = false;
  bool is_tail = false;  ///< from the head to the loss

  /// TSR_OP_* in small letters: "layer_norm".
  constexpr std::string_view name() const { return {name_text.data(), name_length}; }
  constexpr bool is_segment_op() const { return operands.count > 0; }
  constexpr bool has_role(uint32_t role) const {
    for (const OperandEntry& operand : operands)
      if (operand.role == role) return true;
    return false;
  }
  constexpr bool makes_loss() const { return has_role(TSR_ROLE_SCALAR); }
  constexpr bool has_products() const { return cost_factor > 0; }
  constexpr bool multiplies_by_parameters() const { return has_products() && has_role(TSR_ROLE_PARAMETER); }

  double forward_operations(const tsr_op& op) const {
    auto product = static_cast<double>(cost_factor);
    for (const int dim : cost_dims)
      product *= static_cast<double>(op.dims[dim]);
    return product;
  }
  /// Of the op's phase. A backward has a product for the gradient of each factor, and a half has one of them. One
  /// without halves makes the forward's products too.
  double operations(const tsr_op& op) const {
    const double forward = forward_operations(op);
    if (op.phase != TSR_PHASE_BACKWARD) return forward;
    return backward == Backward::whole ? 3 * forward : 2 * forward;
  }
};

}  // namespace tessera::op
