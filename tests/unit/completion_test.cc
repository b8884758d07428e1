// Sums between stages of the gradients of parameters that several of them hold.
#include "passes/completion.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/program_builder.h"

namespace tessera::testing {
using namespace host;
namespace {

class Completion : public ::testing::Test {
 protected:
  Completion() {
    LayoutEntry tied;
    tied.parameter = 0;
    tied.axis = 0;
    tied.coordinates = {0, 2};
    p_.layout = {tied};
  }

  /// A home of the unit wte.
  Home home_of(const std::vector<int>& parameters) {
    Home home{p_.next_id++, "tied", 0, {}, 0, {}};
    for (const int parameter : parameters) {
      const uint64_t num_elements = model_.parameters[static_cast<size_t>(parameter)].num_elements;
      home.pieces.push_back({parameter, 0, 0, num_elements, home.num_elements});
      home.num_elements += num_elements;
    }
    home.roles[TSR_HOME_GRADIENT] = {transient(p_, "g", home.num_elements, TSR_BUFFER_GRADIENT), 0, home.num_elements};
    return home;
  }

  const Model model_ = toy_model();
  const Mesh mesh_{{{"pp", 3, TSR_SPLITS_LAYERS}}};
  Program p_ = empty_program(model_, mesh_);
};

TEST_F(Completion, IsOverTheStagesOfTheUnit) {
  for (const Home& home : {home_of({0}), home_of({})}) {  // a rank may have no part of it
    const std::vector<Action> sums = completions_of(p_, home);
    ASSERT_EQ(sums.size(), 1u);
    EXPECT_EQ(p_.groups[sums[0].group].coordinates, (std::vector{0, 2}));
    EXPECT_EQ(sums[0].bindings[0].num_elements, home.num_elements);
  }
}

TEST_F(Completion, IsForEachHomeWhoseGradientIsRead) {
  for (int i = 0; i < 3; ++i)
    p_.homes.push_back(home_of({0}));
  for (const size_t read_one : {0, 2})
    add_action(p_, TSR_ACTION_SUM_SQUARES, TSR_STREAM_COMPUTE,
               {read(p_.homes[read_one].roles[TSR_HOME_GRADIENT].buffer)});
  complete_gradients(p_);
  ASSERT_EQ(p_.actions.size(), 4u);
  for (const size_t i : {0, 2}) {
    EXPECT_EQ(p_.actions[i].kind, TSR_ACTION_ALL_REDUCE);
    EXPECT_EQ(p_.actions[i].bindings[0].buffer, p_.actions[i + 1].bindings[0].buffer);
  }
}

TEST_F(Completion, NeedsAHomeWhoseParametersAreOnTheSameStages) {
  const Home home = home_of({0, 1});
  expect_error([&] { completions_of(p_, home); },
               {"home tied holds wte and h.0.fc.weight, which are on different ranks of axis pp"});
}

}  // namespace
}  // namespace tessera::testing
