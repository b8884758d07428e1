// What a model needs of a step, said from the model alone: which segments run, what is added to which gradient.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"
#include "verify/model/content.h"

namespace tessera::host {

/// The axes of several ranks with tokens of their own, as bits: of all, or of those that a group of `axis` is over.
uint32_t axes_of_tokens(const Mesh& mesh, int axis = TSR_WORLD_AXIS);

/// Of one rank's model. A value that exists whole and in rows is one value here, in two forms.
class ModelNeeds {
 public:
  ModelNeeds(const Program& program, AddendSets& sets);

  /// What an operand of a segment has to hold, but for states: the forms that the model names.
  Content value(int v, int micro_batch) const;
  /// Its complete gradient.
  Content value_gradient(int v, int micro_batch) const;
  Content gradient(int parameter) const;  ///< complete: of all uses and micro-batches
  Content loss(ContentKind kind) const;   ///< complete, of `loss` or `correct`

  /// What completes a value of which each rank has a part, where an axis splits a dim that is contracted: TSR_REDUCE_*.
  uint32_t reduction(const Content& content) const;

  /// The number of the addend that a use contributes; -1 where the op has none.
  int input_addend(int segment, uint32_t slot) const { return find(input_addends_, segment, slot); }
  int parameter_addend(int segment, uint32_t slot, int micro_batch) const;
  /// The micro-batch that an addend of a parameter's gradient is of.
  int micro_batch_of(int parameter, uint32_t addend) const {
    return static_cast<int>(addend) / gradient_uses_[static_cast<size_t>(parameter)];
  }

  /// Those of which all addends of a parameter's gradient are in the set, ascending.
  std::vector<int> complete_micro_batches(int parameter, const AddendSets::Set& addends) const;

  /// Whether its backward has a use: it leads to a trainable parameter.
  bool needs_backward(int segment) const { return needs_backward_[static_cast<size_t>(segment)]; }
  /// Whether the gradient of one of its inputs leads there; whether one of its own parameters is trainable.
  bool needs_input_gradient(int segment) const { return needs_input_gradient_[static_cast<size_t>(segment)]; }
  bool needs_parameter_gradient(int segment) const { return needs_parameter_gradient_[static_cast<size_t>(segment)]; }

 private:
  using BySlot = std::vector<std::vector<int>>;  // [segment][slot]
  static int find(const BySlot& all, int segment, uint32_t slot) {
    const auto& of = all[static_cast<size_t>(segment)];
    return slot < of.size() ? of[slot] : -1;
  }
  int gradient_root(int v) const;
  void count_uses(const Segment& segment);
  void find_backwards();
  void find_reductions();
  void find_gradient_axes(const Program& program);

  const Model& model_;
  uint32_t num_micro_batches_;
  std::vector<bool> is_in_rows_;                 // of each value
  std::vector<int> input_uses_, gradient_uses_;  // of each value, of each parameter: how often
  BySlot input_addends_, parameter_addends_;
  std::vector<bool> needs_backward_, needs_input_gradient_, needs_parameter_gradient_;  // of each segment
  std::vector<uint32_t> all_inputs_, all_gradients_;  // complete sets: of each value, of each parameter
  std::vector<uint32_t> gradient_axes_;               // of each parameter: those its gradient is summed over
  std::vector<uint32_t> reductions_;                  // of each value
  uint32_t all_micro_batches_ = 0;
  uint32_t axes_of_tokens_;  // of several ranks
};

}  // namespace tessera::host
