// SPDX-License-Identifier: Apache-2.0
// The table of ops: the entries of tessera/ops.inc, parsed at compile time, so that an entry that is wrong does not
// compile. Devices take slots from it (op_slots.hpp), the host names, costs and what a split dim does to an op,
// strategies what to cut. Adding an op adds a line to ops.inc, and nothing here.
//
//     find_op(TSR_OP_LINEAR)->name                  "linear"
//     find_op(op.kind)->forward_operations(op)      2 B T I O
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "tessera/op_entry.hpp"

namespace tessera::op {

namespace op_text {

/// Not constexpr: reaching it ends the compilation, which names the call.
inline void entry_is_wrong(const char*) {}

constexpr void require(bool holds, const char* expected) {
  if (!holds) entry_is_wrong(expected);
}

constexpr int dim_of(char letter) {
  constexpr std::pair<char, uint32_t> kLetters[] = {
      {'B', TSR_DIM_BATCH}, {'T', TSR_DIM_SEQ}, {'H', TSR_DIM_HEADS}, {'D', TSR_DIM_HEAD_DIM},  {'C', TSR_DIM_EMBED},
      {'I', TSR_DIM_IN},    {'O', TSR_DIM_OUT}, {'V', TSR_DIM_VOCAB}, {'P', TSR_DIM_POSITIONS}, {'L', TSR_DIM_CLASSES}};
  for (const auto& [known, dim] : kLetters)
    if (known == letter) return static_cast<int>(dim);
  require(false, "one of the dims' letters");
  return 0;
}

constexpr int attribute_of(std::string_view word) {
  constexpr std::pair<std::string_view, int> kWords[] = {
      {"has_bias", TSR_ATTR_HAS_BIAS}, {"activation", TSR_ATTR_ACTIVATION},
      {"epsilon", TSR_ATTR_EPSILON},   {"scale", TSR_ATTR_SCALE},
      {"max_norm", TSR_ATTR_MAX_NORM}, {"arrivals", TSR_ATTR_ARRIVALS},
      {"beta1", TSR_ATTR_BETA1},       {"beta2", TSR_ATTR_BETA2}};
  for (const auto& [known, attribute] : kWords)
    if (known == word) return attribute;
  require(false, "one of the attributes' words");
  return 0;
}

struct Slot {
  uint32_t role, index;
};

/// Reads an entry from left to right.
class Parser {
 public:
  constexpr Parser(uint32_t kind, std::string_view name, std::string_view text) : text_(text) {
    entry_.kind = kind;
    for (const char c : name)
      entry_.name_text.at(entry_.name_length++) = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }

  constexpr OpEntry parse() {
    const bool has_operands = !at_end() && !text_.starts_with("with ");
    while (has_operands && !take("-> "))
      operand();
    while (has_operands && !at_end() && !take("; "))
      operand();
    if (!has_operands) entry_.dims = 1u << TSR_DIM_ELEMENTS;
    while (!at_end()) {
      clause();
      take("; ");
    }
    sort();
    return entry_;
  }

 private:
  constexpr bool at_end() const { return text_.empty(); }
  constexpr bool next_is(char c) const { return !text_.empty() && text_[0] == c; }
  constexpr bool is_digit() const { return !text_.empty() && text_[0] >= '0' && text_[0] <= '9'; }
  constexpr bool take(std::string_view what) {
    if (!text_.starts_with(what)) return false;
    text_.remove_prefix(what.size());
    return true;
  }
  constexpr char take_char() {
    require(!at_end(), "more text");
    const char c = text_[0];
    text_.remove_prefix(1);
    return c;
  }
  constexpr void skip_blank() { take(" "); }
  constexpr std::string_view take_word() {
    size_t n = 0;
    while (n < text_.size() &&
           (text_[n] == '_' || (text_[n] >= 'a' && text_[n] <= 'z') || (text_[n] >= '0' && text_[n] <= '9')))
      ++n;
    const std::string_view word = text_.substr(0, n);
    text_.remove_prefix(n);
    return word;
  }
  constexpr uint64_t take_number() {
    uint64_t number = 0;
    while (is_digit())
      number = 10 * number + static_cast<uint64_t>(take_char() - '0');
    return number;
  }

  constexpr Slot take_slot() {
    if (take("x:loss")) return {TSR_ROLE_SCALAR, TSR_SCALAR_LOSS};
    if (take("x:correct")) return {TSR_ROLE_SCALAR, TSR_SCALAR_CORRECT};
    uint32_t role = 0;
    if (take("do"))
      role = TSR_ROLE_OUTPUT_GRADIENT;
    else if (take("di"))
      role = TSR_ROLE_INPUT_GRADIENT;
    else if (take("p"))
      role = TSR_ROLE_PARAMETER;
    else if (take("i"))
      role = TSR_ROLE_INPUT;
    else if (take("o"))
      role = TSR_ROLE_OUTPUT;
    else if (take("s"))
      role = TSR_ROLE_SAVED;
    require(role != 0 && is_digit(), "a slot");
    return {role, static_cast<uint32_t>(take_char() - '0')};
  }

  constexpr int take_dim() {
    const int dim = dim_of(take_char());
    entry_.dims |= 1u << dim;
    return dim;
  }
  constexpr int take_attribute() {
    const int attribute = attribute_of(take_word());
    entry_.attributes |= 1u << attribute;
    return attribute;
  }

  constexpr void operand() {
    OperandEntry operand;
    const Slot slot = take_slot();
    operand.role = slot.role;
    operand.index = slot.index;
    operand.has_gradient = !take("!");
    if (take("?")) {
      Condition condition;
      if (!next_is('[')) condition.attribute = take_attribute();
      operand.may_be_left_out = slot.role == TSR_ROLE_OUTPUT;
      (operand.may_be_left_out ? operand.left_out : operand.exists) = condition;
    }
    require(take("["), "[");
    while (!take("]")) {
      if (take("*") || take(",")) continue;
      if (is_digit())
        operand.factor *= take_number();
      else
        operand.dims.add(take_dim());
    }
    if (take(":")) operand.type = type();
    if (take("=")) contraction();
    skip_blank();
    entry_.operands.add(operand);
  }

  constexpr OperandType type() {
    const std::string_view word = take_word();
    require(word == "f32" || word == "tokens" || word == "labels", "f32, tokens or labels");
    return word == "f32" ? OperandType::float32 : OperandType::int32;
  }

  constexpr void contraction() {
    const bool is_sum = take("sum(");
    require(is_sum || take("max("), "sum or max");
    entry_.reduce = is_sum ? TSR_REDUCE_SUM : TSR_REDUCE_MAX;
    entry_.contracted = dim_of(take_char());
    require(take(")"), ")");
  }

  constexpr OperandEntry& find(uint32_t role, uint32_t index) {
    for (size_t i = 0; i < entry_.operands.count; ++i)
      if (OperandEntry& o = entry_.operands.items[i]; o.role == role && o.index == index) return o;
    require(false, "a slot of this entry");
    return entry_.operands.items[0];
  }

  /// f(operand, whether its gradient is meant, when) for the slots up to the end of the clause.
  template <class F>
  constexpr void slots(const F& f) {
    while (!at_end() && !next_is(';')) {
      const Slot slot = take_slot();
      const bool is_gradient = slot.role == TSR_ROLE_OUTPUT_GRADIENT;
      Condition when;
      if (take("!")) when = {take_attribute(), true};
      f(find(is_gradient ? TSR_ROLE_OUTPUT : slot.role, slot.index), is_gradient, when);
      skip_blank();
    }
  }
  constexpr void reads(bool input_half, bool weight_half) {
    slots([&](OperandEntry& operand, bool is_gradient, Condition when) {
      if (input_half) (is_gradient ? operand.gradient_input_half : operand.input_half) = {true, when};
      if (weight_half) (is_gradient ? operand.gradient_weight_half : operand.weight_half) = {true, when};
    });
  }

  constexpr void letters(DimList& dims) {
    while (!at_end() && !next_is(';')) {
      if (!take(",") && !take(" ")) dims.add(dim_of(take_char()));
    }
  }

  constexpr void clause() {
    const std::string_view word = take_word();
    skip_blank();
    if (word == "keep") {
      while (!at_end() && !next_is(';'))
        operand();
    } else if (word == "reads") {
      entry_.backward = Backward::whole;
      reads(true, true);
    } else if (word == "input" || word == "weight") {
      entry_.backward = Backward::halves;
      reads(word == "input", word == "weight");
    } else if (word == "forward") {
      for (size_t i = 0; i < entry_.operands.count; ++i)
        entry_.operands.items[i].is_read_by_forward = entry_.operands.items[i].role != TSR_ROLE_INPUT;
      slots([](OperandEntry& operand, bool, Condition) { operand.is_read_by_forward = true; });
    } else if (word == "alias") {
      const Slot alias = take_slot();
      find(TSR_ROLE_INPUT, alias.index).is_alias = true;
      require(take("=do"), "=do and an output's index");
      take_number();
      skip_blank();
    } else if (word == "whole") {
      letters(entry_.whole);
    } else if (word == "begin") {
      letters(entry_.begin);
      entry_.attributes |= entry_.begin.contains(TSR_DIM_VOCAB)
                               ? 1u << TSR_ATTR_VOCAB_BEGIN | 1u << TSR_ATTR_VOCAB_COUNT | 1u << TSR_ATTR_VOCAB_TOTAL
                               : 1u << TSR_ATTR_ROW_BEGIN | 1u << TSR_ATTR_ROW_PERIOD;
    } else if (word == "with") {
      while (!at_end() && !next_is(';')) {
        take_attribute();
        skip_blank();
      }
    } else if (word == "cost") {
      entry_.cost_factor = take_number();
      letters(entry_.cost_dims);
    } else if (word == "dtypes") {
      require(take("f32"), "f32");
      skip_blank();
      entry_.is_float32_only = true;
    } else {
      require(word == "tail", "a clause");
      entry_.is_tail = true;
    }
  }

  /// By role: parameters, inputs, outputs, saved, scalars.
  constexpr void sort() {
    FixedList<OperandEntry, 12> sorted;
    for (const uint32_t role : {TSR_ROLE_PARAMETER, TSR_ROLE_INPUT, TSR_ROLE_OUTPUT, TSR_ROLE_SAVED, TSR_ROLE_SCALAR})
      for (const OperandEntry& operand : entry_.operands)
        if (operand.role == role) sorted.add(operand);
    entry_.operands = sorted;
  }

  std::string_view text_;
  OpEntry entry_;
};

}  // namespace op_text

inline constexpr OpEntry kOps[] = {
#define TSR_OP(number, NAME, entry) op_text::Parser(number, #NAME, entry).parse(),
#include "tessera/ops.inc"
};

/// The entry of TSR_OP_* `kind`, or nullptr for one that this ABI does not have.
constexpr const OpEntry* find_op(uint32_t kind) {
  for (const OpEntry& entry : kOps)
    if (entry.kind == kind) return &entry;
  return nullptr;
}

}  // namespace tessera::op
