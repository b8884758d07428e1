// Frozen parameters do not move by a bit; the others move as if nothing were frozen.
#include <fnmatch.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/local_job.h"

namespace tessera::testing {
namespace {

std::vector<std::string> flags(std::vector<std::string> more, const char* lr = "--lr=0.003") {
  std::vector<std::string> all = {"--model=" + golden_folder(), "--data=" + golden_folder() + "/tokens.bin",
                                  "--batch-size=1", "--seq-len=32", lr};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

const RunResult& untrained() {
  static const RunResult run = run_local(flags({"--steps=1"}, "--lr=0"), 1);
  return run;
}

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

class Freeze : public ::testing::TestWithParam<std::string> {
 protected:
  static std::string freeze() { return "--freeze=" + GetParam(); }
  static bool is_frozen(const std::string& name) {
    const std::string patterns = GetParam();
    for (size_t begin = 0; begin <= patterns.size();) {
      const size_t end = std::min(patterns.find(',', begin), patterns.size());
      if (matches(patterns.substr(begin, end - begin), name)) return true;
      begin = end + 1;
    }
    return false;
  }
};

// The first step's gradients do not depend on what is frozen, and without clipping neither do its updates.
TEST_P(Freeze, OneStepIsThatOfTheWholeModel) {
  for (int num_ranks : {1, 3}) {
    const std::vector<std::string> step = {"--steps=1", "--clip=0", "--grad-accum=2"};
    auto some = step;
    some.push_back(freeze());
    const RunResult whole = run_local(flags(step), num_ranks), part = run_local(flags(some), num_ranks);
    EXPECT_EQ(part.steps[0].loss, whole.steps[0].loss);
    EXPECT_LT(part.steps[0].grad_norm, whole.steps[0].grad_norm);
    for (const auto& [name, values] : part.parameters) {
      EXPECT_EQ(values, is_frozen(name) ? untrained().parameters.at(name) : whole.parameters.at(name)) << name;
      EXPECT_NE(whole.parameters.at(name), untrained().parameters.at(name)) << name;
    }
  }
}

TEST_P(Freeze, TrainsWithTheRestOverAnyNumberOfRanks) {
  const auto run = [](int num_ranks, std::vector<std::string> more = {}) {
    more.insert(more.end(), {freeze(), "--steps=8", "--grad-accum=" + std::to_string(6 / num_ranks)});
    return run_local(flags(more), num_ranks);
  };
  const RunResult one = run(1), three = run(3);
  EXPECT_LT(one.steps.back().loss, one.steps.front().loss);
  for (size_t i = 0; i < one.steps.size(); ++i) {
    EXPECT_NEAR(three.steps[i].loss, one.steps[i].loss, 1e-4 * one.steps[i].loss);
    EXPECT_NEAR(three.steps[i].grad_norm, one.steps[i].grad_norm, 1e-4 * one.steps[i].grad_norm);
  }
  for (const auto& [name, values] : three.parameters)
    EXPECT_EQ(values == untrained().parameters.at(name), is_frozen(name)) << name;
  for (const char* flag : {"--debug-memory", "--ddp.bucket-mb=0.01", "--recompute=full", "--recompute=attention"})
    EXPECT_TRUE(same_bits(three, run(3, {flag}))) << flag;
  for (const char* strategy : {"--strategy=fsdp", "--strategy=zero3"})
    for (const char* recompute : {"--recompute=none", "--recompute=full"})
      EXPECT_TRUE(same_bits(three, run(3, {strategy, recompute, "--debug-memory"}))) << strategy << " " << recompute;
  EXPECT_TRUE(same_bits(three, run(3, {"--debug-memory", "--stream-delay=3", "--recompute=every=2"})));
}

INSTANTIATE_TEST_SUITE_P(Patterns, Freeze,
                         ::testing::Values("wte*", "*.bias", "h.2.*", "wte*,wpe*,h.[0-2].*", "wpe*,h.3.*,ln_f.*"),
                         [](const auto& test) { return "pattern_" + std::to_string(test.index); });

TEST(FrozenHalves, HaveNormsThatAddUp) {
  const auto norm = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--steps=1", "--grad-accum=2"});
    return run_local(flags(more), 2).steps[0].grad_norm;
  };
  const double whole = norm({}), upper = norm({"--freeze=w*", "--freeze=h.[01].*"}),
               lower = norm({"--freeze=h.[23].*,ln_f.*"});
  EXPECT_NEAR(std::hypot(upper, lower), whole, 1e-12 * whole);
}

}  // namespace
}  // namespace tessera::testing
