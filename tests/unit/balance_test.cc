// Ranks that keep different amounts.
#include "plan/balance.h"

#include <gtest/gtest.h>

#include <array>

#include "support/program_builder.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr uint64_t kAlign = 64;  // elements of kBufferAlignment

tsr_strategy_interface owners() {
  tsr_strategy_interface table{};
  table.struct_size = sizeof table;
  table.depends_on_coordinate = [](tsr_strategy*) noexcept { return 1u; };
  return table;
}

/// Ranks of one axis, each a class of its own.
class Owners : public ::testing::Test {
 protected:
  /// The ranks own that many elements of parameter 0 (wte.weight), each in one home.
  Balance balance(const std::vector<uint64_t>& owned) {
    const Mesh mesh({{"dp", static_cast<int>(owned.size())}});
    const tsr_strategy_interface table = owners();
    const StrategyOnAxis strategies[] = {{"owners", 0, &table, nullptr}};
    JobPrograms job{RankClasses(mesh, strategies), {}};
    for (size_t rank = 0; rank < owned.size(); ++rank) {
      Program program = empty_program(model_, mesh, {static_cast<int>(rank)});
      const uint64_t values = persistent(program, "values", owned[rank]);
      Home home{1, "home", 0, {{0, 0, 0, owned[rank], 0}}, owned[rank], {}};
      home.roles[TSR_HOME_VALUE] = {values, 0, owned[rank]};
      home.roles[TSR_HOME_GRADIENT] = {transient(program, "gradients", owned[rank]), 0, owned[rank]};
      program.homes.push_back(home);
      job.by_representative[static_cast<int>(rank)].steps.push_back(program);
    }
    return balance_of(job);
  }

  const Model model_ = toy_model();
};

TEST_F(Owners, OfEqualSharesAreEven) {
  const Balance even = balance({kAlign, kAlign, kAlign});
  EXPECT_TRUE(even.is_even());
  EXPECT_EQ(even.imbalance(), 0);
  EXPECT_EQ(even.bottleneck, "");
}

TEST_F(Owners, AreComparedWithTheirMean) {
  const Balance b = balance({2 * kAlign, 3 * kAlign, 1 * kAlign, 2 * kAlign});
  EXPECT_EQ(b.min_bytes, kBufferAlignment);
  EXPECT_EQ(b.min_rank, 2);
  EXPECT_EQ(b.max_bytes, 3 * kBufferAlignment);
  EXPECT_EQ(b.max_rank, 1);
  EXPECT_DOUBLE_EQ(b.mean_bytes, 2.0 * kBufferAlignment);
  EXPECT_DOUBLE_EQ(b.imbalance(), 0.5);
  EXPECT_EQ(b.bottleneck, "") << "a part of a tensor can be cut further";
}

TEST_F(Owners, CountForAllThatKeepAsMuch) {
  const Mesh mesh({{"dp", 4}});
  JobPrograms job{RankClasses::of_programs(mesh, std::array{0, 1, 1, 1}), {}};
  for (const int rank : {0, 1}) {
    Program program = empty_program(model_, mesh, {rank});
    persistent(program, "values", rank == 0 ? 5 * kAlign : kAlign);
    job.by_representative[rank].steps.push_back(program);
  }
  EXPECT_DOUBLE_EQ(balance_of(job).mean_bytes, 2.0 * kBufferAlignment);
}

TEST_F(Owners, AWholeTensorAboveTheMeanIsTheBottleneck) {
  const uint64_t whole = model_.parameters[0].num_elements;
  const Balance b = balance({whole, kAlign, kAlign});
  EXPECT_EQ(b.bottleneck, "wte.weight");
  EXPECT_EQ(b.bottleneck_bytes, whole * sizeof(float));
}

}  // namespace
}  // namespace tessera::testing
