// Writes the base program: what a rank would run if only the batch were split. Of a GPT-2 with tied embeddings, a step
// of one micro-batch reads (shortened; the texts in tests/golden/programs show it after the passes):
//
//     compute  zero  w loss dst  w squares dst:1
//     compute  forward wte mb=0  r wte p:weight  r tokens i:tokens  w %23 o:wte.out
//     ...                                                                             the segments in order
//     compute  loss loss mb=0  r wte p:weight  r %57 i:ln_f.out  ...  a loss x:loss  w %60 di:ln_f.out  a g:weight
//     compute  backward ln_f mb=0  ...                                                 the segments in reverse
//     compute  sum_squares home=wte.weight  r gradient src  a squares x:squares       one for each home
//     compute  clip  r squares x:squares  w clip x:clip  a step x:step
//     compute  optimizer home=wte.weight predicated  a value dst  r gradient src  a m st:m  a v st:v  ...
//
// Three rules keep the passes simple:
// - An action binds exactly the slots that the device's describe(op) lists (decision 0001). The device decides what its
//   backward keeps from the forward; the program only gives it a buffer.
// - Every gradient is bound with *add*. Which use of a parameter comes first is known only after all passes, so
//   finalize_program turns the first *add* into a *write*.
// - All parameters of a unit share one buffer per role, and a home is a range of it. A pass that shards storage cuts a
//   few large buffers, not a dozen tensors for each block.
//
// No action has a dependency or a communication stream yet: only the order of the list counts. Cost: linear in segments
// times micro-batches.

#include "passes/build_program.h"

#include <algorithm>

#include "tessera/error.hpp"
#include "tessera/op_table.hpp"
#include "tessera/operands.hpp"

namespace tessera::host {
namespace {

/// Writes the base program of one purpose, buffers first.
class BaseBuilder {
 public:
  BaseBuilder(Program& program, const DescribeOp& describe)
      : program_(program), model_(*program.model), describe_(describe) {}

  void build() {
    add_persistent_buffers();
    if (program_.purpose == TSR_PURPOSE_INIT) return;
    const bool trains = program_.purpose == TSR_PURPOSE_STEP;
    if (trains) add_gradient_buffers();
    cast_values();
    zero_accumulators(trains);
    for (uint32_t mb = 0; mb < program_.shape.num_micro_batches; ++mb)
      micro_batch(static_cast<int>(mb), trains);
    if (trains) step_actions();
  }

 private:
  uint64_t add_buffer(const std::string& name, uint32_t kind, tsr_dtype dtype, uint64_t num_elements, bool persistent) {
    return program_.add_buffer({0, name, kind, TSR_MEMORY_DEVICE, dtype, persistent, num_elements});
  }

  void add_persistent_buffers() {
    for (const Unit& unit : model_.units) {
      // Frozen parameters have a buffer of their own (decision 0010): a slice must be the same elements in every role,
      // and a frozen parameter has a value and no other role. Its value is in the compute dtype, since nothing ever
      // updates it.
      const uint64_t trainable = trainable_elements(unit);
      const uint64_t frozen = unit.num_elements - trainable;
      const bool has_v = program_.shape.optimizer == TSR_OP_ADAMW;
      values_.push_back(trainable ? add_buffer(unit.name, TSR_BUFFER_HOME, TSR_F32, trainable, true) : 0);
      frozen_.push_back(frozen ? add_buffer(unit.name + " frozen", TSR_BUFFER_HOME, program_.shape.dtype, frozen, true)
                               : 0);
      m_.push_back(trainable ? add_buffer(unit.name + " m", TSR_BUFFER_OPTIMIZER, TSR_F32, trainable, true) : 0);
      v_.push_back(trainable && has_v ? add_buffer(unit.name + " v", TSR_BUFFER_OPTIMIZER, TSR_F32, trainable, true)
                                      : 0);
    }
    const auto scalar = [&](std::string_view name, uint32_t kind, tsr_dtype dtype, uint64_t n) {
      return add_buffer(std::string(name), kind, dtype, n, true);
    };
    loss_ = scalar(kLossAccumulator, TSR_BUFFER_ACCUMULATOR, TSR_I64, TSR_ACCUMULATOR_LIMBS);
    squares_ = scalar(kSquaresAccumulator, TSR_BUFFER_ACCUMULATOR, TSR_I64, TSR_ACCUMULATOR_LIMBS);
    clip_ = scalar(kClipResult, TSR_BUFFER_SCALAR, TSR_F64, 3);
    step_ = scalar(kOptimizerStep, TSR_BUFFER_SCALAR, TSR_I64, 1);
    lr_ = scalar(kLearningRate, TSR_BUFFER_SCALAR, TSR_F64, 1);
    const bool scales_loss = program_.shape.dtype == TSR_F16;  // its gradients would vanish
    loss_scale_ = scales_loss ? scalar(kLossScale, TSR_BUFFER_SCALAR, TSR_F64, 1) : 0;
    if (counts_correct()) correct_ = scalar(kCorrectCount, TSR_BUFFER_ACCUMULATOR, TSR_I64, 1);
    add_inputs();
    add_homes();
  }

  void add_inputs() {
    const std::vector<int> inputs = model_.inputs();
    inputs_.assign(program_.shape.num_micro_batches, std::vector<uint64_t>(model_.values.size()));
    for (size_t mb = 0; mb < inputs_.size(); ++mb)
      for (size_t i = 0; i < inputs.size(); ++i) {
        const Value& value = model_.values[static_cast<size_t>(inputs[i])];
        const uint64_t buffer = add_buffer(value.name + " mb=" + std::to_string(mb), TSR_BUFFER_INPUT, value.dtype,
                                           value.num_elements, true);
        inputs_[mb][static_cast<size_t>(inputs[i])] = buffer;
        program_.inputs.push_back({buffer, static_cast<int>(i), static_cast<int>(mb)});
      }
  }

  /// Whether the model's loss counts correct predictions.
  bool counts_correct() const {
    const op::OpEntry* loss = op::find_op(model_.loss().op.kind);
    return loss && std::ranges::any_of(loss->operands, [](const op::OperandEntry& operand) {
             return operand.role == TSR_ROLE_SCALAR && operand.index == TSR_SCALAR_CORRECT;
           });
  }

  /// Trainable parameters come first in a unit (decision 0002), so the aligned end of the last one is the size of the
  /// trainable part.
  uint64_t trainable_elements(const Unit& unit) const {
    uint64_t end = 0;
    for (int p : unit.parameters) {
      const Parameter& parameter = model_.parameters[p];
      if (!parameter.trainable) continue;
      end = parameter.unit_offset +
            (parameter.num_elements + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
    }
    return end;
  }

  /// Where a parameter's value is: in `buffers` (by unit), or, if it is frozen, in its unit's frozen part.
  tsr_home_role place_of_value(const Parameter& parameter, const std::vector<uint64_t>& buffers) const {
    const int unit = parameter.unit;
    if (parameter.trainable) return {buffers[unit], parameter.unit_offset, parameter.num_elements};
    return {frozen_[unit], parameter.unit_offset - trainable_elements(model_.units[unit]), parameter.num_elements};
  }

  /// Homes are float32; another compute dtype is cast from them at the start of every program.
  void cast_values() {
    copies_ = values_;
    if (program_.shape.dtype == TSR_F32) return;
    for (size_t u = 0; u < values_.size(); ++u) {
      if (!values_[u]) continue;
      const Buffer home = program_.buffer(values_[u]);
      copies_[u] = add_buffer(home.name, TSR_BUFFER_GATHERED, program_.shape.dtype, home.num_elements, false);
      Action& cast = append(TSR_ACTION_CAST);
      bind_whole(cast, TSR_SLOT(TSR_ROLE_SOURCE, 0), TSR_MODE_READ, values_[u]);
      bind_whole(cast, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_WRITE, copies_[u]);
    }
  }

  std::vector<tsr_piece> pieces(int32_t p) const {
    const Parameter& parameter = model_.parameters[p];
    if (!parameter.part) return {{p, 0, 0, parameter.num_elements, 0}};
    std::vector<tsr_piece> pieces;
    for (const ParameterPiece& piece : parameter.part->pieces)
      pieces.push_back({p, 0, piece.whole_offset, piece.num_elements, piece.local_offset});
    return pieces;
  }

  void add_homes() {
    for (size_t p = 0; p < model_.parameters.size(); ++p) {
      const Parameter& parameter = model_.parameters[p];
      Home home{program_.next_id++, parameter.name, parameter.unit, {}, parameter.num_elements, {}};
      home.pieces = pieces(static_cast<int32_t>(p));
      const auto role = [&](uint64_t buffer) {
        return buffer ? tsr_home_role{buffer, parameter.unit_offset, parameter.num_elements} : tsr_home_role{};
      };
      home.roles[TSR_HOME_VALUE] = place_of_value(parameter, values_);
      if (parameter.trainable) {
        home.roles[TSR_HOME_M] = role(m_[parameter.unit]);
        home.roles[TSR_HOME_V] = role(v_[parameter.unit]);
      }
      program_.homes.push_back(std::move(home));
    }
  }

  void add_gradient_buffers() {
    const auto per_unit = [&](const std::string& suffix) {
      std::vector<uint64_t> ids;
      for (const Unit& unit : model_.units) {
        const uint64_t n = trainable_elements(unit);
        ids.push_back(n ? add_buffer(unit.name + suffix, TSR_BUFFER_GRADIENT, TSR_F32, n, false) : 0);
      }
      return ids;
    };
    gradients_ = per_unit("");
    if (program_.shape.reduce_every == TSR_EVERY_MICRO_BATCH)
      for (uint32_t mb = 0; mb < program_.shape.num_micro_batches; ++mb)
        micro_batch_gradients_.push_back(per_unit(" mb=" + std::to_string(mb)));
    for (Home& home : program_.homes) {
      const Parameter& parameter = model_.parameters[&home - program_.homes.data()];
      if (parameter.trainable)
        home.roles[TSR_HOME_GRADIENT] = {gradients_[parameter.unit], parameter.unit_offset, parameter.num_elements};
    }
  }

  Action& append(uint32_t kind) {
    Action action;
    action.id = program_.next_id++;
    action.kind = kind;
    program_.actions.push_back(std::move(action));
    return program_.actions.back();
  }

  void bind(Action& action, uint32_t slot, uint32_t mode, uint64_t buffer, uint64_t offset, uint64_t num_elements) {
    action.bindings.push_back({buffer, offset, num_elements, slot, mode});
  }
  void bind_whole(Action& action, uint32_t slot, uint32_t mode, uint64_t buffer) {
    bind(action, slot, mode, buffer, 0, program_.buffer(buffer).num_elements);
  }

  void zero_accumulators(bool trains) {
    Action& zero = append(TSR_ACTION_ZERO);
    bind_whole(zero, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_WRITE, loss_);
    if (trains) bind_whole(zero, TSR_SLOT(TSR_ROLE_DESTINATION, 1), TSR_MODE_WRITE, squares_);
    if (correct_) bind_whole(zero, TSR_SLOT(TSR_ROLE_DESTINATION, trains ? 2 : 1), TSR_MODE_WRITE, correct_);
  }

  void micro_batch(int mb, bool trains) {
    const int loss = static_cast<int>(model_.segments.size()) - 1;
    // Every micro-batch has buffers of its own, so a schedule may run several at once. The memory planner lets them
    // share addresses where they do not overlap in time.
    activations_.assign(model_.values.size(), 0);
    activation_gradients_.assign(model_.values.size(), 0);
    saved_.assign(model_.segments.size(), {});
    for (int s = 0; s < loss; ++s)
      compute(TSR_ACTION_FORWARD, s, mb, trains);
    compute(TSR_ACTION_LOSS, loss, mb, trains);
    if (!trains) return;
    for (int s = loss - 1; s >= 0; --s)
      if (model_.segments[s].has_backward) compute(TSR_ACTION_BACKWARD, s, mb, trains);
    if (!micro_batch_gradients_.empty()) accumulate_gradients(mb);
  }

  void compute(uint32_t kind, int segment, int mb, bool trains) {
    Action& action = append(kind);
    action.segment = segment;
    action.micro_batch = mb;
    for (const tsr_slot_spec& spec : describe_(op_of(program_, action))) {
      const uint32_t role = TSR_SLOT_ROLE(spec.slot);
      // Evaluation has no backward to save for, and a frozen parameter has no gradient: the kernels leave out what is
      // unbound.
      if (role == TSR_ROLE_SAVED && !trains && (spec.flags & TSR_SLOT_OPTIONAL)) continue;
      if (role == TSR_ROLE_INPUT_GRADIENT && is_input_of_model(segment, spec)) continue;
      if (role == TSR_ROLE_GRADIENT && !model_.parameters[parameter_at(segment, spec)].trainable) continue;
      bind_slot(action, spec, segment, mb);
    }
  }

  /// Values that the data fills have no gradient.
  bool is_input_of_model(int segment, const tsr_slot_spec& spec) const {
    const int value = model_.segments[segment].inputs.at(TSR_SLOT_INDEX(spec.slot));
    return model_.values[value].kind != TSR_VALUE_ACTIVATION;
  }

  int parameter_at(int segment, const tsr_slot_spec& spec) const {
    return model_.segments[segment].parameters.at(TSR_SLOT_INDEX(spec.slot));
  }

  void bind_slot(Action& action, const tsr_slot_spec& spec, int segment, int mb) {
    const Segment& seg = model_.segments[segment];
    const uint32_t index = TSR_SLOT_INDEX(spec.slot);
    const std::string about = seg.name + " mb=" + std::to_string(mb);
    switch (TSR_SLOT_ROLE(spec.slot)) {
      case TSR_ROLE_PARAMETER:
        return bind_parameter(action, spec, parameter_at(segment, spec), copies_);
      case TSR_ROLE_GRADIENT:
        return bind_parameter(action, spec, parameter_at(segment, spec),
                              micro_batch_gradients_.empty() ? gradients_ : micro_batch_gradients_[mb]);
      case TSR_ROLE_INPUT:
        return bind_value(action, spec, value_buffer(seg.inputs.at(index), mb));
      case TSR_ROLE_OUTPUT:
        return bind_value(action, spec, value_buffer(seg.outputs.at(index), mb));
      case TSR_ROLE_INPUT_GRADIENT:
        return bind_value(action, spec, gradient_buffer(seg.inputs.at(index), mb));
      case TSR_ROLE_OUTPUT_GRADIENT:
        return bind_value(action, spec, gradient_buffer(seg.outputs.at(index), mb));
      case TSR_ROLE_SAVED: {
        auto& saved = saved_[segment];
        if (saved.size() <= index) saved.resize(index + 1);
        if (!saved[index]) saved[index] = add_buffer(about, TSR_BUFFER_SAVED, spec.dtype, spec.num_elements, false);
        return bind_value(action, spec, saved[index]);
      }
      case TSR_ROLE_WORKSPACE:
        if (spec.num_elements)
          bind_value(action, spec, add_buffer(about, TSR_BUFFER_WORKSPACE, spec.dtype, spec.num_elements, false));
        return;
      case TSR_ROLE_SCALAR:
        if (index == TSR_SCALAR_LOSS) return bind_value(action, spec, loss_);
        if (index == TSR_SCALAR_CORRECT && correct_) return bind_value(action, spec, correct_);
        if (index == TSR_SCALAR_LOSS_SCALE) {
          if (loss_scale_) bind_value(action, spec, loss_scale_);
          return;
        }
        [[fallthrough]];
      default:
        throw Error(TSR_E_INTERNAL, "the device asks for slot " + op::slot_name(spec.slot) + " in segment " + seg.name +
                                        ", which the program cannot bind");
    }
  }

  void bind_parameter(Action& action, const tsr_slot_spec& spec, int p, const std::vector<uint64_t>& buffers) {
    const Parameter& parameter = model_.parameters[p];
    expect(action, spec, parameter.num_elements);
    const tsr_home_role place = place_of_value(parameter, buffers);
    bind(action, spec.slot, spec.mode, place.buffer, place.offset, place.num_elements);
  }

  void bind_value(Action& action, const tsr_slot_spec& spec, uint64_t buffer) {
    expect(action, spec, program_.buffer(buffer).num_elements);
    bind_whole(action, spec.slot, spec.mode, buffer);
  }

  void expect(const Action& action, const tsr_slot_spec& spec, uint64_t num_elements) const {
    if (spec.num_elements != num_elements)
      throw Error(TSR_E_INTERNAL, "the device describes slot " + op::slot_name(spec.slot) + " of " +
                                      model_.segments[action.segment].name + " with " +
                                      std::to_string(spec.num_elements) + " elements, the model with " +
                                      std::to_string(num_elements));
  }

  uint64_t value_buffer(int value, int mb) {
    if (inputs_[mb][value]) return inputs_[mb][value];
    return activation(activations_, value, mb, "");
  }
  uint64_t gradient_buffer(int value, int mb) {
    // The gradient of an addend is the gradient of the sum, so both share one buffer and no copy is made (decision
    // 0001).
    while (model_.values[value].gradient_of >= 0)
      value = model_.values[value].gradient_of;
    return activation(activation_gradients_, value, mb, "d ");
  }
  uint64_t activation(std::vector<uint64_t>& buffers, int v, int mb, const char* prefix) {
    const Value& value = model_.values[v];
    if (!buffers[v])
      buffers[v] = add_buffer(prefix + value.name + " mb=" + std::to_string(mb), TSR_BUFFER_ACTIVATION, value.dtype,
                              value.num_elements, false);
    return buffers[v];
  }

  /// With --reduce-every=micro-batch, a backward writes gradients of its own micro-batch, which these `add` actions add
  /// to the homes. A storage pass sums the operands of an `add` over the ranks. Last parameter first, the order in
  /// which the backward completes them.
  void accumulate_gradients(int mb) {
    for (size_t p = model_.parameters.size(); p-- > 0;) {
      const Parameter& parameter = model_.parameters[p];
      if (!parameter.trainable) continue;
      Action& add = append(TSR_ACTION_ADD_INTO);
      add.micro_batch = mb;
      add.home = program_.homes[p].id;
      bind(add, TSR_SLOT(TSR_ROLE_SOURCE, 0), TSR_MODE_READ, micro_batch_gradients_[mb][parameter.unit],
           parameter.unit_offset, parameter.num_elements);
      bind(add, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_ADD, gradients_[parameter.unit], parameter.unit_offset,
           parameter.num_elements);
    }
  }

  void bind_role(Action& action, uint32_t slot, uint32_t mode, const tsr_home_role& role) {
    if (role.buffer) bind(action, slot, mode, role.buffer, role.offset, role.num_elements);
  }

  /// `clip` also runs when clipping is off: it decides whether the step is good, which is the predicate of `optimizer`,
  /// and counts the good steps. Everything that changes from step to step (coefficient, step count, learning rate) is
  /// read from memory. So the program of all steps is one, and a captured graph of it stays valid.
  void step_actions() {
    const uint32_t src = TSR_SLOT(TSR_ROLE_SOURCE, 0);
    const auto scalar = [](uint32_t index) { return TSR_SLOT(TSR_ROLE_SCALAR, index); };
    for (const Home& home : program_.homes) {
      if (!home.roles[TSR_HOME_GRADIENT].buffer) continue;
      Action& squares = append(TSR_ACTION_SUM_SQUARES);
      squares.home = home.id;
      bind_role(squares, src, TSR_MODE_READ, home.roles[TSR_HOME_GRADIENT]);
      bind_whole(squares, scalar(TSR_SCALAR_ACCUMULATOR), TSR_MODE_ADD, squares_);
    }
    Action& clip = append(TSR_ACTION_CLIP);
    bind_whole(clip, scalar(TSR_SCALAR_ACCUMULATOR), TSR_MODE_READ, squares_);
    bind_whole(clip, scalar(TSR_SCALAR_CLIP), TSR_MODE_WRITE, clip_);
    bind_whole(clip, scalar(TSR_SCALAR_STEP), TSR_MODE_ADD, step_);
    if (loss_scale_) bind_whole(clip, scalar(TSR_SCALAR_LOSS_SCALE), TSR_MODE_READ, loss_scale_);
    for (const Home& home : program_.homes) {
      if (!home.roles[TSR_HOME_GRADIENT].buffer) continue;
      Action& update = append(TSR_ACTION_OPTIMIZER);
      update.home = home.id;
      update.flags = TSR_ACTION_PREDICATED;
      bind_role(update, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_ADD, home.roles[TSR_HOME_VALUE]);
      bind_role(update, src, TSR_MODE_READ, home.roles[TSR_HOME_GRADIENT]);
      bind_role(update, TSR_SLOT(TSR_ROLE_STATE, 0), TSR_MODE_ADD, home.roles[TSR_HOME_M]);
      bind_role(update, TSR_SLOT(TSR_ROLE_STATE, 1), TSR_MODE_ADD, home.roles[TSR_HOME_V]);
      bind_whole(update, scalar(TSR_SCALAR_CLIP), TSR_MODE_READ, clip_);
      bind_whole(update, scalar(TSR_SCALAR_STEP), TSR_MODE_READ, step_);
      bind_whole(update, scalar(TSR_SCALAR_LR), TSR_MODE_READ, lr_);
    }
  }

  Program& program_;
  const Model& model_;
  const DescribeOp& describe_;
  std::vector<uint64_t> values_, frozen_, m_, v_, gradients_;  // buffer ids by unit, 0 where there is none
  std::vector<uint64_t> copies_;                               // compute operands: values_, or cast from them
  std::vector<std::vector<uint64_t>> micro_batch_gradients_;   // [mb][unit], with reduce-every=micro-batch
  std::vector<std::vector<uint64_t>> inputs_;                  // [mb][value], 0: not an input
  uint64_t loss_ = 0, squares_ = 0, clip_ = 0, step_ = 0, lr_ = 0, loss_scale_ = 0, correct_ = 0;
  std::vector<uint64_t> activations_, activation_gradients_;  // by value, of the current micro-batch
  std::vector<std::vector<uint64_t>> saved_;                  // [segment][index], of the current micro-batch
};

}  // namespace

Program build_program(const Model& model, const Mesh& mesh, const Coordinates& coordinates, const StepConfig& shape,
                      const Layout& layout, uint32_t purpose, const DescribeOp& describe) {
  Program program;
  program.model = &model;
  program.mesh = &mesh;
  program.coordinates = coordinates;
  program.shape = shape;
  program.purpose = purpose;
  program.layout = layout;
  BaseBuilder(program, describe).build();
  return program;
}

}  // namespace tessera::host
