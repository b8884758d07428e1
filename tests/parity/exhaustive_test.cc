// The whole matrix of what may not change a bit; `./dev test --all` runs it. Jobs and modes with all their options are
// a full product, each over local-comm with and without recomputation, and over gloo. What does not multiply goes round
// from one combination to the next: reduce dtype, frozen parameters, optimizer, memory checks, delays, which
// recomputation.
#include <gtest/gtest.h>

#include <algorithm>

#include "parity/sharding_matrix.h"

namespace tessera::testing {
namespace {

struct JobSetting {
  std::string mesh, dtype, accumulation, reduce_every;
};

/// What a job's combinations are taken from. Modes and options that make the programs of others are left out; see
/// planned_memory_test.cc.
Space space_of(const JobSetting& job) {
  Space whole = sharding_space();
  std::vector<Rule> rules = whole.rules();
  rules.push_back({"limit", {"1"}, "prefetch", {"0"}});
  for (const auto& [factor, value] :
       {std::pair("prefetch", "1"), std::pair("backward", "pre"), std::pair("limit", "0")})
    rules.push_back({"wrap", {"root"}, factor, {value}});
  return Space(whole.factors(), rules)
      .with("mode", {"ddp", "ddp_small_buckets", "full_shard", "shard_grad_op", "optimizer_only", "no_shard", "zero1",
                     "zero2", "zero3", "zero3_kept"})
      .with("mesh",
            job.mesh == "2x2" ? std::vector<std::string>{"2x2", "4"} : std::vector{job.mesh})  // and its flat one
      .with("dtype", {job.dtype})
      .with("accumulation", {job.accumulation})
      .with("reduce-every", {job.reduce_every});
}

class Exhaustive : public ::testing::TestWithParam<JobSetting> {};

TEST_P(Exhaustive, HasTheBitsOfDdp) {
  ShardingMatrix matrix(space_of(GetParam()), 4);
  const Space& space = matrix.space();
  size_t turn = 0;
  const auto next = [&](Space::Row& row, const char* factor, size_t first = 0) {
    const size_t at = space.find(factor);
    Space::Row changed = row;
    changed[at] = first + turn++ % (space.factors()[at].values.size() - first);
    if (space.allows(changed)) row = changed;
  };
  enum class Recompute { no, yes, maybe };
  const auto check = [&](Space::Row row, const char* comm, Recompute recompute) {
    row[space.find("comm")] = std::string(comm) == "gloo";
    for (const char* factor : {"reduce-dtype", "freeze", "optimizer", "debug"})
      next(row, factor);
    if (recompute != Recompute::no) next(row, "recompute", recompute == Recompute::yes);
    EXPECT_EQ(matrix.check(row), "") << space.text(row);
  };
  for (const Space::Row& row :
       space.all({"mesh", "comm", "recompute", "reduce-dtype", "freeze", "optimizer", "debug"})) {
    check(row, "local", Recompute::no);
    check(row, "local", Recompute::yes);
    check(row, "gloo", Recompute::maybe);
  }
}

std::vector<JobSetting> jobs() {
  std::vector<JobSetting> all;
  for (const char* mesh : {"2", "3", "4", "2x2"})
    for (const char* dtype : {"float32", "bf16", "fp16"})
      for (const char* accumulation : {"1", "3"})
        for (const char* every : {"step", "micro-batch"})
          all.push_back({mesh, dtype, accumulation, every});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Sharding, Exhaustive, ::testing::ValuesIn(jobs()), [](const auto& test) {
  const JobSetting& job = test.param;
  std::string name = "ranks_" + job.mesh + "_" + job.dtype + "_accum_" + job.accumulation + "_" + job.reduce_every;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace tessera::testing
