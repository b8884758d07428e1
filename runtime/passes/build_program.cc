// Writes the base program: what a rank would run if only the batch were split. Of a GPT-2 with tied embeddings, a step
// of one micro-batch reads (shortened; the texts in tests/golden/programs show it after the passes):
//
//     compute  zero  w loss dst  w squares+0:20 dst:1
//     compute  forward wte mb=0  r wte p:weight  r tokens i:tokens  w %23 o:wte.out
//     ...                                                                             the segments in order
//     compute  loss loss mb=0  r wte p:weight  r %57 i:ln_f.out  ...  a loss x:loss  w %60 di:ln_f.out  a g:weight
//     compute  backward ln_f mb=0  ...                                                 the segments in reverse
//     compute  sum_squares home=wte.weight  r gradient src  a squares+0:20 x:squares  one for each home
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

#include "base/concat.h"
#include "passes/state_buffers.h"
#include "tessera/error.hpp"
#include "tessera/op_slots.hpp"
#include "tessera/operands.hpp"

namespace tessera::host {
namespace {

/// Writes the base program of one purpose, buffers first.
class ProgramBuilder {
 public:
  ProgramBuilder(Program& program, const DescribeOp& describe)
      : program_(program), model_(*program.model), describe_(describe) {}

  void build() {
    state_ = add_persistent_buffers(program_);
    if (program_.purpose == TSR_PURPOSE_INIT) return;
    const bool trains = program_.purpose == TSR_PURPOSE_STEP;
    if (trains) add_gradient_buffers(program_, state_);
    cast_values();
    zero_accumulators(trains);
    for (uint32_t mb = 0; mb < program_.step_config.num_micro_batches; ++mb)
      micro_batch(static_cast<int>(mb), trains);
    if (trains) step_actions();
  }

 private:
  uint64_t add_buffer(const std::string& name, uint32_t kind, tsr_dtype dtype, uint64_t num_elements, bool persistent) {
    return program_.add_buffer({0, name, kind, TSR_MEMORY_DEVICE, dtype, persistent, num_elements});
  }

  /// Homes are float32; another compute dtype is cast from them at the start of every program.
  void cast_values() {
    copies_ = state_.values;
    if (program_.step_config.dtype == TSR_F32) return;
    for (size_t u = 0; u < state_.values.size(); ++u) {
      if (!state_.values[u]) continue;
      const Buffer home = program_.buffer(state_.values[u]);
      copies_[u] = add_buffer(home.name, TSR_BUFFER_GATHERED, program_.step_config.dtype, home.num_elements, false);
      Action& cast = append(TSR_ACTION_CAST);
      bind_whole(cast, kSource, TSR_MODE_READ, state_.values[u]);
      bind_whole(cast, kDestination, TSR_MODE_WRITE, copies_[u]);
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

  /// The limbs of the squares. The host has set the run words after them before the step.
  void bind_limbs(Action& action, uint32_t slot, uint32_t mode) {
    bind(action, slot, mode, state_.squares, 0, TSR_ACCUMULATOR_LIMBS);
  }

  void zero_accumulators(bool trains) {
    Action& zero = append(TSR_ACTION_ZERO);
    bind_whole(zero, kDestination, TSR_MODE_WRITE, state_.loss);
    if (trains) bind_limbs(zero, TSR_SLOT(TSR_ROLE_DESTINATION, 1), TSR_MODE_WRITE);
    if (state_.correct)
      bind_whole(zero, TSR_SLOT(TSR_ROLE_DESTINATION, trains ? 2 : 1), TSR_MODE_WRITE, state_.correct);
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
    if (!state_.micro_batch_gradients.empty()) accumulate_gradients(mb);
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
        return bind_parameter(
            action, spec, parameter_at(segment, spec),
            state_.micro_batch_gradients.empty() ? state_.gradients : state_.micro_batch_gradients[mb]);
      case TSR_ROLE_INPUT:
        return bind_value(action, spec, value_buffer(seg.inputs.at(index), mb));
      case TSR_ROLE_OUTPUT:
        return bind_value(action, spec, value_buffer(seg.outputs.at(index), mb));
      case TSR_ROLE_INPUT_GRADIENT:
        return bind_value(action, spec, gradient_buffer(seg.inputs.at(index), mb));
      case TSR_ROLE_OUTPUT_GRADIENT:
        return bind_value(action, spec, gradient_buffer(seg.outputs.at(index), mb));
      case TSR_ROLE_SAVED: {
        expect_saved(action, spec);
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
        if (index == TSR_SCALAR_LOSS) return bind_value(action, spec, state_.loss);
        if (index == TSR_SCALAR_CORRECT && state_.correct) return bind_value(action, spec, state_.correct);
        if (index == TSR_SCALAR_LOSS_SCALE) {
          if (state_.loss_scale) bind_value(action, spec, state_.loss_scale);
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
    const HomeRole place = place_of_value(model_, state_, parameter, buffers);
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

  /// What a kernel keeps for the backward is the op's, as its other operands are: kernels write all of it.
  void expect_saved(const Action& action, const tsr_slot_spec& spec) const {
    const op::SlotList slots = op::slots_of(op_of(program_, action));
    const auto of_table = std::ranges::find(slots, spec.slot, &tsr_slot_spec::slot);
    const std::string where =
        "the device describes slot " + op::slot_name(spec.slot) + " of " + model_.segments[action.segment].name;
    if (of_table == slots.end()) throw Error(TSR_E_INTERNAL, where + ", which its op does not save");
    if (of_table->dtype != spec.dtype)
      throw Error(TSR_E_INTERNAL,
                  concat(where, " in ", dtype_name(spec.dtype), ", the op table in ", dtype_name(of_table->dtype)));
    expect(action, spec, of_table->num_elements);
  }

  uint64_t value_buffer(int value, int mb) {
    if (state_.inputs[mb][value]) return state_.inputs[mb][value];
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
      bind(add, kSource, TSR_MODE_READ, state_.micro_batch_gradients[mb][parameter.unit], parameter.unit_offset,
           parameter.num_elements);
      bind(add, kDestination, TSR_MODE_ADD, state_.gradients[parameter.unit], parameter.unit_offset,
           parameter.num_elements);
    }
  }

  void bind_role(Action& action, uint32_t slot, uint32_t mode, const HomeRole& role) {
    if (role.buffer) bind(action, slot, mode, role.buffer, role.offset, role.num_elements);
  }

  /// `clip` also runs when clipping is off: it decides whether the step is good, which is the predicate of `optimizer`,
  /// and counts the good steps. Everything that changes from step to step (coefficient, step count, learning rate) is
  /// read from memory. So the program of all steps is one, and a captured graph of it stays valid.
  void step_actions() {
    const auto scalar = [](uint32_t index) { return TSR_SLOT(TSR_ROLE_SCALAR, index); };
    for (const Home& home : program_.homes) {
      if (!home.roles[TSR_HOME_GRADIENT].buffer) continue;
      Action& squares = append(TSR_ACTION_SUM_SQUARES);
      squares.home = home.id;
      bind_role(squares, kSource, TSR_MODE_READ, home.roles[TSR_HOME_GRADIENT]);
      bind_limbs(squares, scalar(TSR_SCALAR_ACCUMULATOR), TSR_MODE_ADD);
    }
    Action& clip = append(TSR_ACTION_CLIP);
    bind_whole(clip, scalar(TSR_SCALAR_ACCUMULATOR), TSR_MODE_READ, state_.squares);
    bind_whole(clip, scalar(TSR_SCALAR_CLIP), TSR_MODE_WRITE, state_.clip);
    bind_whole(clip, scalar(TSR_SCALAR_STEP), TSR_MODE_ADD, state_.step);
    if (state_.loss_scale) bind_whole(clip, scalar(TSR_SCALAR_LOSS_SCALE), TSR_MODE_READ, state_.loss_scale);
    for (const Home& home : program_.homes) {
      if (!home.roles[TSR_HOME_GRADIENT].buffer) continue;
      Action& update = append(TSR_ACTION_OPTIMIZER);
      update.home = home.id;
      update.flags = TSR_ACTION_PREDICATED;
      bind_role(update, kDestination, TSR_MODE_ADD, home.roles[TSR_HOME_VALUE]);
      bind_role(update, kSource, TSR_MODE_READ, home.roles[TSR_HOME_GRADIENT]);
      bind_role(update, TSR_SLOT(TSR_ROLE_STATE, 0), TSR_MODE_ADD, home.roles[TSR_HOME_M]);
      bind_role(update, TSR_SLOT(TSR_ROLE_STATE, 1), TSR_MODE_ADD, home.roles[TSR_HOME_V]);
      bind_whole(update, scalar(TSR_SCALAR_CLIP), TSR_MODE_READ, state_.clip);
      bind_whole(update, scalar(TSR_SCALAR_STEP), TSR_MODE_READ, state_.step);
      bind_whole(update, scalar(TSR_SCALAR_LR), TSR_MODE_READ, state_.lr);
    }
  }

  Program& program_;
  const Model& model_;
  const DescribeOp& describe_;
  StateBuffers state_;
  std::vector<uint64_t> copies_;  // by unit: compute operands, state_.values or cast from them
  std::vector<uint64_t> activations_, activation_gradients_;  // by value, of the current micro-batch
  std::vector<std::vector<uint64_t>> saved_;                  // [segment][index], of the current micro-batch
};

}  // namespace

Program build_program(const Model& model, const Mesh& mesh, const Coordinates& coordinates,
                      const StepConfig& step_config, const Layout& layout, uint32_t purpose,
                      const DescribeOp& describe) {
  Program program;
  program.model = &model;
  program.mesh = &mesh;
  program.coordinates = coordinates;
  program.step_config = step_config;
  program.purpose = purpose;
  program.layout = layout;
  ProgramBuilder(program, describe).build();
  return program;
}

}  // namespace tessera::host
