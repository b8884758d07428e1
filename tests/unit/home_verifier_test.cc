// Ranks that are walked by another one have what it has in the same places of their homes.
#include <gtest/gtest.h>

#include "support/expect_diagnostic.h"
#include "support/program_builder.h"
#include "verify/model/verify_homes.h"

namespace tessera::testing {
using namespace host;
namespace {

class HomeVerifierTest : public ::testing::Test {
 protected:
  static constexpr int kPadding = -1;

  /// A rank with a home that begins with the first elements of these parameters.
  Program rank_with(const std::vector<int>& parameters, int rank) const {
    Program program = empty_program(model_, *mesh_, mesh_->coordinates(rank));
    program.layout = layout_;
    Home home{program.next_id++, "home", 0, {}, 0, {}};
    for (const int parameter : parameters) {
      if (parameter != kPadding) home.pieces.push_back({parameter, 0, 0, 16, home.num_elements});
      home.num_elements += 16;
    }
    home.roles[TSR_HOME_VALUE] = {persistent(program, "home", 128), 0, home.num_elements};
    program.homes = {home};
    return program;
  }

  /// Of rank 1, which rank 0 is walked for.
  Diagnostics findings(const std::vector<int>& of_walked, const std::vector<int>& own) const {
    const Program walked = rank_with(of_walked, 0), other = rank_with(own, 1);
    HomeVerifier verifier(*mesh_, [&](int rank) -> const Program& { return rank ? other : walked; });
    DiagnosticList diagnostics;
    verifier.check_places(
        walked, 1, [&]() -> const Program& { return other; }, diagnostics);
    return diagnostics.take();
  }
  void set_mesh(std::vector<Axis> axes) { mesh_ = std::make_unique<Mesh>(std::move(axes)); }

  const Model model_ = toy_model();
  std::unique_ptr<Mesh> mesh_ = std::make_unique<Mesh>(std::vector<Axis>{{"dp", 2}});
  Layout layout_;
};

TEST_F(HomeVerifierTest, ARankHasAllThatTheOtherHas) {
  EXPECT_TRUE(is_clean(findings({0, 1}, {0, 1})));
  EXPECT_TRUE(has_diagnostic(findings({0, 1}, {0}),
                             "rank 1 keeps h.0.fc.weight in another place of its homes than "
                             "rank 0"));
  EXPECT_TRUE(has_diagnostic(findings({0}, {0, 1}), "rank 1 keeps h.0.fc.weight in another place"));
}

/// Of ranks with other parts of tensors one may have padding, but not another parameter.
TEST_F(HomeVerifierTest, TensorRanksHaveNoParametersExchanged) {
  set_mesh({{"tp", 2, TSR_SPLITS_TENSORS}});
  EXPECT_TRUE(is_clean(findings({0, 1}, {0, 1})));
  EXPECT_TRUE(is_clean(findings({0, 1}, {0})));
  EXPECT_TRUE(has_diagnostic(findings({0}, {1}), "rank 1 keeps h.0.fc.weight in another place"));
  EXPECT_TRUE(is_clean(findings({0, 1}, {kPadding, 1})));
  EXPECT_TRUE(has_diagnostic(findings({0, 1}, {kPadding, 0}), "rank 1 keeps wte.weight in another place"));
}

TEST_F(HomeVerifierTest, AStageMayHaveNoPartOfWhatOthersShare) {
  set_mesh({{"pp", 3, TSR_SPLITS_LAYERS}});
  EXPECT_TRUE(has_diagnostic(findings({1, 0}, {1}), "rank 1 keeps wte.weight in another place"));
  LayoutEntry tied;
  tied.parameter = 0;
  tied.axis = 0;
  tied.coordinates = {0, 2};
  layout_ = {tied};
  EXPECT_TRUE(is_clean(findings({1, 0}, {1})));
}

}  // namespace
}  // namespace tessera::testing
