// Homes of any place and length with their updates, for tests of what cuts homes.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "passes/chunks.h"
#include "support/program_builder.h"

namespace tessera::testing {

/// Chunks are cut at multiples of as many elements: 4,096 bytes.
inline constexpr uint64_t kCut = 1024;

/// A step over homes of two parameters of toy_model: "wte.weight", which decays, and "h.0.fc.bias", which does not.
class HomesByHand {
 public:
  static constexpr int kMatrix = 0, kBias = 2;

  explicit HomesByHand(uint64_t num_elements, uint64_t shift = 0) {
    program.step_config.weight_decay = 0.1;
    for (const uint32_t role : {TSR_HOME_VALUE, TSR_HOME_GRADIENT, TSR_HOME_M, TSR_HOME_V})
      roles_[role] = role == TSR_HOME_GRADIENT ? transient(program, "g", num_elements + shift, TSR_BUFFER_GRADIENT)
                                               : persistent(program, "p", num_elements + shift);
    squares_ = transient(program, "squares", TSR_SQUARES_WORDS, TSR_BUFFER_ACCUMULATOR, TSR_I64);
    shifts_[TSR_HOME_M] = shifts_[TSR_HOME_V] = shift;
  }

  /// A home at `offset` in all its buffers (state: further by `shift`), of one piece, in the order of their updates.
  HomesByHand& add(uint64_t offset, uint64_t num_elements, int parameter = kMatrix, bool is_trained = true) {
    Home home{program.next_id++, "home", program.model->parameters[parameter].unit, {}, num_elements, {}};
    home.name += std::to_string(program.homes.size());
    home.pieces.push_back({parameter, 0, 100 * program.homes.size(), num_elements, 0});
    for (uint32_t role = 0; role < kMaxHomeRoles; ++role)
      if (roles_[role] && (is_trained || role == TSR_HOME_VALUE))
        home.roles[role] = {roles_[role], offset + shifts_[role], num_elements};
    program.homes.push_back(home);
    return *this;
  }

  void add_updates() {
    const auto bind = [](const HomeRole& role, uint32_t mode, uint32_t slot) {
      return Use{role.buffer, mode, slot, role.offset, role.num_elements};
    };
    const uint32_t src = TSR_SLOT(TSR_ROLE_SOURCE, 0), dst = TSR_SLOT(TSR_ROLE_DESTINATION, 0);
    for (const Home& home : program.homes)
      if (home.roles[TSR_HOME_GRADIENT].buffer)
        add_action(
            program, TSR_ACTION_SUM_SQUARES, TSR_STREAM_COMPUTE,
            {bind(home.roles[TSR_HOME_GRADIENT], TSR_MODE_READ, src),
             {squares_, TSR_MODE_ADD, TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_ACCUMULATOR), 0, TSR_ACCUMULATOR_LIMBS}})
            .home = home.id;
    add_action(program, TSR_ACTION_CLIP, TSR_STREAM_COMPUTE, {read(squares_)});
    for (const Home& home : program.homes)
      if (home.roles[TSR_HOME_GRADIENT].buffer)
        add_action(program, TSR_ACTION_OPTIMIZER, TSR_STREAM_COMPUTE,
                   {bind(home.roles[TSR_HOME_VALUE], TSR_MODE_ADD, dst),
                    bind(home.roles[TSR_HOME_GRADIENT], TSR_MODE_READ, src),
                    bind(home.roles[TSR_HOME_M], TSR_MODE_ADD, TSR_SLOT(TSR_ROLE_STATE, 0)),
                    bind(home.roles[TSR_HOME_V], TSR_MODE_ADD, TSR_SLOT(TSR_ROLE_STATE, 1))})
            .home = home.id;
  }

  HomesByHand& cut(uint64_t chunk_elements) {
    add_updates();
    cut_homes(program, chunk_elements * sizeof(float));
    return *this;
  }

  /// "name offset:elements" of each home, where it keeps its first moment, else its value.
  std::vector<std::string> texts() const {
    std::vector<std::string> result;
    for (const Home& home : program.homes) {
      const HomeRole& place = home.roles[home.roles[TSR_HOME_M].buffer ? TSR_HOME_M : TSR_HOME_VALUE];
      EXPECT_EQ(place.num_elements, home.num_elements);
      result.push_back(home.name + " " + std::to_string(place.offset) + ":" + std::to_string(home.num_elements));
    }
    return result;
  }

  /// Moves a home's range in one role.
  void move(size_t home, uint32_t role, uint64_t offset) { program.homes[home].roles[role].offset = offset; }

  Program program = empty_program(model(), mesh());

 private:
  static const Model& model() {
    static const Model model = toy_model();
    return model;
  }
  static const Mesh& mesh() {
    static const Mesh mesh({{"dp", 1}});
    return mesh;
  }

  std::array<uint64_t, kMaxHomeRoles> roles_{}, shifts_{};
  uint64_t squares_ = 0;
};

}  // namespace tessera::testing
