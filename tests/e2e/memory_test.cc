// The planned arena is what a run takes: resident memory of real processes against the plan.
#include <gtest/gtest.h>

#include "e2e/cli.h"

namespace tessera::testing {
namespace {

/// What a rank's process has beside its arena: the program and its libraries (16 MiB), stacks, kernels that oneDNN
/// generates, connections, and the 4 MiB through which parameters are read. Measured: 23 to 26 MiB.
constexpr double kConstantBytes = 32 << 20;

struct Case {
  const char* name;
  std::vector<std::string> flags;
};

class Memory : public ::testing::TestWithParam<Case> {};

TEST_P(Memory, StaysWithinFivePercentOfTheArenaAndAConstant) {
  const TempFolder folder;
  std::vector<std::string> flags = {"train",
                                    "--model=" + source_dir("examples/char"),
                                    "--data=" + source_dir("runtime"),
                                    "--batch-size=24",
                                    "--seq-len=128",
                                    "--steps=2",
                                    "--threads=1",
                                    "--metrics=" + folder.path("metrics")};
  flags.insert(flags.end(), GetParam().flags.begin(), GetParam().flags.end());
  const CommandResult run = run_command(tessera(flags));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto lines = read_json_lines(folder.path("metrics"));
  const nlohmann::json planned = lines.front(), last = lines.back();
  const auto number = [](const nlohmann::json& json) { return json.get<double>(); };
  const double arena = number(planned["planned_peak_bytes"]), peak = number(last["peak_memory_bytes"]);
  const double waste = number(planned["planned_bytes"]["waste"]);
  EXPECT_GT(arena, 100e6) << "too small to tell the arena from the rest";
  EXPECT_LE(peak, 1.05 * arena + kConstantBytes) << "arena " << arena;
  EXPECT_GE(peak, 0.95 * arena) << "planned, and not used";
  EXPECT_LE(number(last["memory_bytes"]), peak);
  EXPECT_LT(waste, 0.1 * (arena - waste));
  EXPECT_NE(run.err.find("\n  memory planned   "), std::string::npos) << run.err;
  EXPECT_NE(run.err.find(" at the peak of rank 0's process, "), std::string::npos) << run.err;
}
INSTANTIATE_TEST_SUITE_P(Runs, Memory,
                         ::testing::Values(Case{"OneRank", {}}, Case{"Ddp", {"--nproc=2", "--strategy=ddp"}},
                                           Case{"Fsdp", {"--nproc=2", "--strategy=fsdp"}},
                                           Case{"Zero3", {"--nproc=2", "--strategy=zero3"}}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace tessera::testing
