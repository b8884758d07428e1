// Programs made by hand whose storage is split, for tests of placements.
#pragma once

#include <gtest/gtest.h>

#include "support/program_builder.h"

namespace tessera::testing {

inline void remove(Program& program, uint32_t kind, std::string_view stream = "", size_t n = 0) {
  const size_t index = nth_action(program, kind, stream, n);
  ASSERT_LT(index, program.actions.size());
  program.actions.erase(program.actions.begin() + static_cast<ptrdiff_t>(index));
}
inline Action& nth(Program& program, uint32_t kind, std::string_view stream = "", size_t n = 0) {
  return program.actions.at(nth_action(program, kind, stream, n));
}

/// One parameter of 256 elements, one segment. fsdp in ten actions: gather, forward, backward, scatter, squares, their
/// sum, clip, update.
class Storage : public ::testing::Test {
 protected:
  explicit Storage(std::vector<Axis> axes = {{"dp", 2}}) : mesh_(std::move(axes)) {}

  void layout(int axis, uint32_t kind, uint32_t roles = TSR_ALL_HOME_ROLES) {
    LayoutEntry& split = p_.layout.emplace_back();
    split.parameter = kWeight;
    split.axis = axis;
    split.kind = kind;
    split.roles = roles;
  }
  Action& on(int axis, uint32_t kind, const std::vector<Use>& uses, uint32_t reduce = 0) {
    Action& action = add_action(p_, kind, p_.comm_stream(axis, "test"), uses);
    action.group = p_.group({axis, {}});
    action.reduce = reduce;
    return action;
  }
  void compute(uint32_t kind, const std::vector<Use>& uses) {
    Action& action = add_action(p_, kind, TSR_STREAM_COMPUTE, uses);
    action.segment = 1;
    action.micro_batch = 0;
  }
  void forward_and_backward(uint64_t weight, uint64_t gradient) {
    compute(TSR_ACTION_FORWARD, {read(weight, TSR_SLOT(TSR_ROLE_PARAMETER, 0)), read(x_, TSR_SLOT(TSR_ROLE_INPUT, 0)),
                                 write(y_, TSR_SLOT(TSR_ROLE_OUTPUT, 0))});
    compute(TSR_ACTION_BACKWARD,
            {read(weight, TSR_SLOT(TSR_ROLE_PARAMETER, 0)), read(x_, TSR_SLOT(TSR_ROLE_INPUT, 0)),
             read(y_, TSR_SLOT(TSR_ROLE_OUTPUT_GRADIENT, 0)), write(gradient, TSR_SLOT(TSR_ROLE_GRADIENT, 0))});
  }
  void make_home(uint64_t value, uint64_t gradient, uint64_t m, uint64_t num_elements) {
    Home home{p_.next_id++, "weight", 1, {{kWeight, 0, 0, num_elements, 0}}, num_elements, {}};
    home.roles[TSR_HOME_VALUE] = {value, 0, num_elements};
    home.roles[TSR_HOME_GRADIENT] = {gradient, 0, num_elements};
    home.roles[TSR_HOME_M] = {m, 0, num_elements};
    p_.homes = {home};
  }
  /// What of the squares is summed over the world: all; all but the sum of what is finite; the limbs; nothing.
  enum class Sums { all, not_finite_and_run_words, limbs, none };
  void sum_over_world(Sums sums) {
    const auto sum = [this](uint64_t offset, uint64_t num_words) {
      on(TSR_WORLD_AXIS, TSR_ACTION_ALL_REDUCE, {add(squares_).at(offset, num_words)}, TSR_REDUCE_SUM);
    };
    if (sums == Sums::all) sum(0, TSR_SQUARES_WORDS);
    if (sums == Sums::limbs) sum(0, TSR_ACCUMULATOR_LIMBS);
    if (sums != Sums::not_finite_and_run_words) return;
    sum(0, 1);
    sum(TSR_ACCUMULATOR_LIMBS, TSR_SQUARES_WORDS - TSR_ACCUMULATOR_LIMBS);
  }
  void step(const Use& value, const Use& gradient, const Use& m, Sums sums = Sums::all) {
    const auto scalar = [](uint32_t index) { return TSR_SLOT(TSR_ROLE_SCALAR, index); };
    add_action(p_, TSR_ACTION_ZERO, 0, {write(squares_).at(0, TSR_ACCUMULATOR_LIMBS)});
    add_action(p_, TSR_ACTION_SUM_SQUARES, 0,
               {gradient, add(squares_, scalar(TSR_SCALAR_ACCUMULATOR)).at(0, TSR_ACCUMULATOR_LIMBS)})
        .home = p_.homes[0].id;
    sum_over_world(sums);
    add_action(p_, TSR_ACTION_CLIP, 0,
               {read(squares_, scalar(TSR_SCALAR_ACCUMULATOR)), write(clip_, scalar(TSR_SCALAR_CLIP)),
                add(count_, scalar(TSR_SCALAR_STEP))});
    add_action(p_, TSR_ACTION_OPTIMIZER, 0,
               {value, gradient, m, read(clip_, scalar(TSR_SCALAR_CLIP)), read(count_, scalar(TSR_SCALAR_STEP)),
                read(lr_, scalar(TSR_SCALAR_LR))})
        .home = p_.homes[0].id;
  }
  static Use state(uint64_t m) { return add(m, TSR_SLOT(TSR_ROLE_STATE, 0)); }

  void fsdp_step(int axis, Sums sums = Sums::all) {
    const uint64_t shard = persistent(p_, "shard", 128), m = persistent(p_, "m", 128, TSR_BUFFER_OPTIMIZER);
    const uint64_t gathered = transient(p_, "gathered", 256, TSR_BUFFER_GATHERED);
    const uint64_t whole = transient(p_, "whole", 256, TSR_BUFFER_GRADIENT),
                   own = transient(p_, "own", 128, TSR_BUFFER_GRADIENT);
    make_home(shard, own, m, 128);
    on(axis, TSR_ACTION_ALL_GATHER, {read(shard), write(gathered)});
    forward_and_backward(gathered, whole);
    on(axis, TSR_ACTION_REDUCE_SCATTER, {read(whole), write(own)}, TSR_REDUCE_SUM);
    if (mesh_.axes().size() > 1) on(1 - axis, TSR_ACTION_ALL_REDUCE, {add(own)}, TSR_REDUCE_SUM);
    step(add(shard), read(own), state(m), sums);
  }

  static constexpr int kWeight = 1;
  const Model model_ = toy_model(1);
  const Mesh mesh_;
  Program p_ = empty_program(model_, mesh_);
  const uint64_t x_ = persistent(p_, "x", 128, TSR_BUFFER_INPUT), y_ = transient(p_, "y", 128);
  const uint64_t squares_ = persistent(p_, "squares", TSR_SQUARES_WORDS, TSR_BUFFER_ACCUMULATOR, TSR_I64);
  const uint64_t clip_ = persistent(p_, "clip", 3, TSR_BUFFER_SCALAR, TSR_F64),
                 lr_ = persistent(p_, "lr", 1, TSR_BUFFER_SCALAR, TSR_F64);
  const uint64_t count_ = persistent(p_, "optimizer_step", 1, TSR_BUFFER_SCALAR, TSR_I64);
};

}  // namespace tessera::testing
