// All parameters of a unit share one buffer per role, and a home is a range of it: of a block "h.0" with 13,312
// elements
//
//     %7 = home h.0 persistent f32[13312]
//     %8 = optimizer h.0 m persistent f32[13312]
//     %9 = optimizer h.0 v persistent f32[13312]
//
// and the home of its last matrix is the range of 4096 elements from 9088 on in each of them. Every program of a rank
// gets the same persistent buffers in the same order. Cost: linear in parameters.

#include "passes/state_buffers.h"

#include <algorithm>

#include "tessera/op_table.hpp"

namespace tessera::host {
namespace {

/// Trainable parameters come first in a unit (decision 0002), so the aligned end of the last one is the size of the
/// trainable part.
uint64_t trainable_elements(const Model& model, const Unit& unit) {
  uint64_t end = 0;
  for (int p : unit.parameters) {
    const Parameter& parameter = model.parameters[p];
    if (!parameter.trainable) continue;
    end = parameter.unit_offset + parameter.padded_elements();
  }
  return end;
}

class StateBuilder {
 public:
  StateBuilder(Program& program, StateBuffers& result) : program_(program), model_(*program.model), result_(result) {}

  void add_persistent_buffers() {
    for (const Unit& unit : model_.units) {
      // Frozen parameters have a buffer of their own (decision 0010): a slice must be the same elements in every role,
      // and a frozen parameter has a value and no other role. Its value is in the compute dtype, since nothing ever
      // updates it.
      const uint64_t trainable = trainable_elements(model_, unit);
      const uint64_t frozen = unit.num_elements - trainable;
      const bool has_v = program_.step_config.optimizer == TSR_OP_ADAMW;
      result_.values.push_back(trainable ? add_buffer(unit.name, TSR_BUFFER_HOME, TSR_F32, trainable, true) : 0);
      result_.frozen.push_back(
          frozen ? add_buffer(unit.name + " frozen", TSR_BUFFER_HOME, program_.step_config.dtype, frozen, true) : 0);
      result_.m.push_back(trainable ? add_buffer(unit.name + " m", TSR_BUFFER_OPTIMIZER, TSR_F32, trainable, true) : 0);
      result_.v.push_back(
          trainable && has_v ? add_buffer(unit.name + " v", TSR_BUFFER_OPTIMIZER, TSR_F32, trainable, true) : 0);
    }
    const auto scalar = [&](std::string_view name, uint32_t kind, tsr_dtype dtype, uint64_t n) {
      return add_buffer(std::string(name), kind, dtype, n, true);
    };
    result_.loss = scalar(kLossAccumulator, TSR_BUFFER_ACCUMULATOR, TSR_I64, TSR_ACCUMULATOR_LIMBS);
    result_.squares = scalar(kSquaresAccumulator, TSR_BUFFER_ACCUMULATOR, TSR_I64, TSR_SQUARES_WORDS);
    result_.clip = scalar(kClipResult, TSR_BUFFER_SCALAR, TSR_F64, 3);
    result_.step = scalar(kOptimizerStep, TSR_BUFFER_SCALAR, TSR_I64, 1);
    result_.lr = scalar(kLearningRate, TSR_BUFFER_SCALAR, TSR_F64, 1);
    const bool scales_loss = program_.step_config.dtype == TSR_F16;  // its gradients would vanish
    result_.loss_scale = scales_loss ? scalar(kLossScale, TSR_BUFFER_SCALAR, TSR_F64, 1) : 0;
    if (counts_correct()) result_.correct = scalar(kCorrectCount, TSR_BUFFER_ACCUMULATOR, TSR_I64, 1);
    add_inputs();
    add_homes();
  }

  void add_gradient_buffers() {
    const auto per_unit = [&](const std::string& suffix) {
      std::vector<uint64_t> ids;
      for (const Unit& unit : model_.units) {
        const uint64_t n = trainable_elements(model_, unit);
        ids.push_back(n ? add_buffer(unit.name + suffix, TSR_BUFFER_GRADIENT, TSR_F32, n, false) : 0);
      }
      return ids;
    };
    result_.gradients = per_unit("");
    if (program_.step_config.reduce_every == TSR_EVERY_MICRO_BATCH)
      for (uint32_t mb = 0; mb < program_.step_config.num_micro_batches; ++mb)
        result_.micro_batch_gradients.push_back(per_unit(" mb=" + std::to_string(mb)));
    for (Home& home : program_.homes) {
      const Parameter& parameter = model_.parameters[&home - program_.homes.data()];
      if (parameter.trainable)
        home.roles[TSR_HOME_GRADIENT] = {result_.gradients[parameter.unit], parameter.unit_offset,
                                         parameter.num_elements};
    }
  }

 private:
  uint64_t add_buffer(const std::string& name, uint32_t kind, tsr_dtype dtype, uint64_t num_elements, bool persistent) {
    return program_.add_buffer({0, name, kind, TSR_MEMORY_DEVICE, dtype, persistent, num_elements});
  }

  void add_inputs() {
    const std::vector<int> inputs = model_.inputs();
    result_.inputs.assign(program_.step_config.num_micro_batches, std::vector<uint64_t>(model_.values.size()));
    for (size_t mb = 0; mb < result_.inputs.size(); ++mb)
      for (size_t i = 0; i < inputs.size(); ++i) {
        const Value& value = model_.values[static_cast<size_t>(inputs[i])];
        const uint64_t buffer = add_buffer(value.name + " mb=" + std::to_string(mb), TSR_BUFFER_INPUT, value.dtype,
                                           value.num_elements, true);
        result_.inputs[mb][static_cast<size_t>(inputs[i])] = buffer;
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
        return buffer ? HomeRole{buffer, parameter.unit_offset, parameter.num_elements} : HomeRole{};
      };
      home.roles[TSR_HOME_VALUE] = place_of_value(model_, result_, parameter, result_.values);
      if (parameter.trainable) {
        home.roles[TSR_HOME_M] = role(result_.m[parameter.unit]);
        home.roles[TSR_HOME_V] = role(result_.v[parameter.unit]);
      }
      program_.homes.push_back(std::move(home));
    }
  }

  Program& program_;
  const Model& model_;
  StateBuffers& result_;
};

}  // namespace

StateBuffers add_persistent_buffers(Program& program) {
  StateBuffers state;
  StateBuilder(program, state).add_persistent_buffers();
  return state;
}

void add_gradient_buffers(Program& program, StateBuffers& state) {
  StateBuilder(program, state).add_gradient_buffers();
}

HomeRole place_of_value(const Model& model, const StateBuffers& state, const Parameter& parameter,
                        const std::vector<uint64_t>& buffers) {
  const int unit = parameter.unit;
  if (parameter.trainable) return {buffers[unit], parameter.unit_offset, parameter.num_elements};
  return {state.frozen[unit], parameter.unit_offset - trainable_elements(model, model.units[unit]),
          parameter.num_elements};
}

}  // namespace tessera::host
