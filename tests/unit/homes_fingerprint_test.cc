// What ranks compare of their homes: each field makes another fingerprint.
#include "compile/homes_fingerprint.h"

#include <gtest/gtest.h>

#include <functional>

#include "support/program_builder.h"

namespace tessera::testing {
namespace {

class Fingerprint : public ::testing::Test {
 protected:
  Fingerprint() {
    const uint64_t values = persistent(program_, "values", 64);
    Home home{program_.next_id++, "weight", 0, {{0, 0, 0, 32, 0}}, 64, {}};
    home.roles[TSR_HOME_VALUE] = {values, 0, 64};
    program_.homes = {home};
    program_.layout.emplace_back();
    program_.layout[0].coordinates = {0};
  }
  /// Whether the first changes, and the second.
  std::pair<bool, bool> differ(const std::function<void(Program&)>& change) const {
    Program other = program_;
    change(other);
    const HomesFingerprint before = fingerprint_of_homes(program_), after = fingerprint_of_homes(other);
    return {before.homes != after.homes, before.layout != after.layout};
  }

  const Model model_ = toy_model();
  const Mesh mesh_{{{"dp", 2}}};
  Program program_ = empty_program(model_, mesh_);
};

TEST_F(Fingerprint, IsOfHomes) {
  const std::function<void(Home&)> changes[] = {
      [](Home& home) { home.name = "bias"; },
      [](Home& home) { home.unit = 1; },
      [](Home& home) { home.num_elements = 63; },
      [](Home& home) { home.pieces[0].parameter = 1; },
      [](Home& home) { home.pieces[0].parameter_offset = 32; },
      [](Home& home) { home.pieces[0].home_offset = 32; },
      [](Home& home) { home.pieces[0].num_elements = 31; },
      [](Home& home) { home.pieces.clear(); },
      [](Home& home) { home.roles[TSR_HOME_VALUE].offset = 1; },
      [](Home& home) { home.roles[TSR_HOME_VALUE].num_elements = 63; },
      [](Home& home) { home.roles[TSR_HOME_VALUE] = {}; },
      [](Home& home) { std::swap(home.roles[TSR_HOME_VALUE], home.roles[TSR_HOME_MASTER]); }};
  for (const auto& change : changes)
    EXPECT_EQ(differ([&](Program& program) { change(program.homes[0]); }), std::pair(true, false)) << &change - changes;
  EXPECT_EQ(differ([](Program& program) { program.buffers[0].name = "other"; }), std::pair(true, false));
  EXPECT_EQ(differ([](Program& program) { program.buffers[0].kind = TSR_BUFFER_OPTIMIZER; }), std::pair(true, false));
}

TEST_F(Fingerprint, OfPlacesIsOfEachProgram) {
  const auto of = [](const Program& program) {
    const Program* programs[] = {&program};
    return fingerprint_of_places(programs);
  };
  const std::function<void(Program&)> changes[] = {
      [](Program& program) { program.purpose = TSR_PURPOSE_EVAL; }, [](Program& program) { program.variant = 1; },
      [](Program& program) { program.buffers[0].name = "other"; }, [](Program& program) { program.homes.clear(); }};
  for (const auto& change : changes) {
    Program other = program_;
    change(other);
    EXPECT_NE(of(other), of(program_)) << &change - changes;
  }
}

TEST_F(Fingerprint, IsOfTheLayout) {
  const std::function<void(LayoutEntry&)> changes[] = {[](LayoutEntry& entry) { ++entry.parameter; },
                                                       [](LayoutEntry& entry) { ++entry.axis; },
                                                       [](LayoutEntry& entry) { ++entry.roles; },
                                                       [](LayoutEntry& entry) { ++entry.kind; },
                                                       [](LayoutEntry& entry) { ++entry.dim; },
                                                       [](LayoutEntry& entry) { ++entry.parts; },
                                                       [](LayoutEntry& entry) { ++entry.blocks; },
                                                       [](LayoutEntry& entry) { ++entry.padded_size; },
                                                       [](LayoutEntry& entry) { ++entry.name; },
                                                       [](LayoutEntry& entry) { entry.coordinates = {1}; },
                                                       [](LayoutEntry& entry) {
                                                         entry.coordinates = {0, 1};
                                                       }};
  for (const auto& change : changes)
    EXPECT_EQ(differ([&](Program& program) { change(program.layout[0]); }), std::pair(false, true))
        << &change - changes;
}

}  // namespace
}  // namespace tessera::testing
