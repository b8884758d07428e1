// Training and planning as typed, on a device whose memory and streams are not the host's.
#include <gtest/gtest.h>
#include <signal.h>

#include "e2e/cli.h"
#include "support/paths.h"
#include "support/processes.h"

namespace tessera::testing {
namespace {

using Flags = std::vector<std::string>;

Flags on_device(const std::string& device, Flags more) {
  more.insert(more.end(), {"--device=" + device, "--plugin-dir=" + binary_dir("tests/devices")});
  return more;
}

CommandResult train_on(const std::string& device, const Flags& more) {
  return run_command(train(on_device(device, more)));
}

CommandResult plan_on(const std::string& device, Flags more) {
  more.insert(more.begin(), {"plan", "--model", golden(), "--seq-len=32"});
  return run_command(tessera(on_device(device, more)));
}

void expect_all(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
}

TEST(OtherDevice, ProcessesOverGlooGiveTheBitsOfTheCpu) {
  for (const Flags& mode : {Flags{"--nproc=2", "--strategy=fsdp"},
                            Flags{"--mesh=pp=2,dp=2", "--strategy=pp=pipeline,dp=zero3", "--grad-accum=4"}}) {
    const auto metrics = [&](Flags flags) {
      const TempFolder folder;
      flags.insert(flags.end(), mode.begin(), mode.end());
      flags.insert(flags.end(), {"--steps=4", "--comm=gloo", "--metrics", folder.path("m")});
      const CommandResult result = run_command(train(flags));
      EXPECT_EQ(result.exit_code, 0) << result.err;
      return read_metrics(folder.path("m"));
    };
    const auto cpu = metrics({}), other = metrics(on_device("other", {}));
    ASSERT_EQ(cpu.size(), 4u);
    ASSERT_EQ(other.size(), 4u);
    for (size_t i = 0; i < cpu.size(); ++i)
      for (const char* name : {"loss", "grad_norm"})
        EXPECT_EQ(cpu[i][name], other[i][name]) << name << " of step " << i + 1;
  }
}

TEST(OtherDevice, AKilledRankEndsTheRun) {
  Command run(train(
      on_device("other", {"--nproc=3", "--comm=gloo", "--steps=100000", "--timeout-ms=" + std::to_string(kNeverMs)})));
  ASSERT_TRUE(run.wait_for("step   20/")) << run.err();
  const std::vector<int> launcher = children_of(run.pid());  // below the supervisor, since the device is from elsewhere
  ASSERT_EQ(launcher.size(), 1u);
  const std::vector<int> ranks = children_of(launcher[0]);
  ASSERT_EQ(ranks.size(), 3u);
  ASSERT_EQ(kill(ranks[1], SIGKILL), 0);
  EXPECT_EQ(run.wait().exit_code, 1);
}

TEST(OtherDevice, ReportsItsMemoryAndWhatPassesThroughTheHost) {
  const TempFolder folder;
  const CommandResult run =
      train_on("other", {"--nproc=2", "--comm=local", "--steps=2", "--metrics", folder.path("m")});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  expect_all(run.err, {"\n  device           other ", " of 4.0 GiB in use; ", " of host memory for staging",
                       "\n  cuda graph       off, because the communicator works on the host", "\n  memory measured  ",
                       " at the peak of rank 0's device, ", "by all processes"});
  const auto steps = read_metrics(folder.path("m"));
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_GT(steps[1]["memory_bytes"], 0);
  EXPECT_LT(steps[1]["memory_bytes"], 8 << 20);  // the process has more
  EXPECT_GE(steps[1]["peak_memory_bytes"], steps[1]["memory_bytes"]);
}

TEST(OtherDevice, SaysWhetherStepsAreGraphs) {
  const auto line = [](const Flags& more) { return train_on("other", more).err; };
  expect_all(line({"--steps=3"}), {"cuda graph       on, from the second step on"});
  expect_all(line({"--steps=3", "--cuda-graph=off"}), {"cuda graph       off, because --cuda-graph is off"});
  expect_all(line({"--steps=3", "--debug-memory"}), {"cuda graph       off, because --debug-memory"});
  expect_all(line({"--steps=3", "--debug-replicas=1"}), {"cuda graph       off, because --debug-replicas"});
  expect_all(train_on("bare", {"--steps=3"}).err, {"cuda graph       off, because the device does not capture work"});
  EXPECT_EQ(run_command(train({"--steps=1"})).err.find("cuda graph"), std::string::npos);
}

TEST(OtherDevice, ACaptureThatFailsIsAWarning) {
  const CommandResult run = train_on("other", {"--steps=4", "--other.fail-capture=true"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const std::string warning =
      "the step cannot be captured as a graph and runs without one: [other-device] no memory is left";
  const size_t first = run.err.find(warning);
  ASSERT_NE(first, std::string::npos) << run.err;
  EXPECT_EQ(run.err.find(warning, first + 1), std::string::npos) << run.err;
}

TEST(OtherDevice, PlansWithTheCopies) {
  const CommandResult program = plan_on("other", {"--nproc=2", "--print-program"});
  EXPECT_EQ(program.exit_code, 0) << program.err;
  expect_all(program.out, {"copy_out", "copy_in", "= staging h.0 host f32["});
  expect_all(plan_on("other", {"--nproc=2"}).out,
             {"tokens per step on other", "  in host memory ", "\n  communication "});
  const auto json = nlohmann::json::parse(plan_on("other", {"--nproc=2", "--json"}).out);
  EXPECT_EQ(json["device"], "other");
  EXPECT_GT(json["host_arena_bytes"], 0);
  EXPECT_EQ(nlohmann::json::parse(plan_on("other", {"--nproc=1", "--json"}).out)["host_arena_bytes"], 0);
}

TEST(OtherDevice, WithoutSemaphoresRanksCannotMeetOnTheHost) {
  const CommandResult refused = plan_on("bare", {"--nproc=2"});
  EXPECT_EQ(refused.exit_code, 2);
  expect_all(refused.err, {"--comm gloo works on the host, but the streams of --device bare cannot wait for the host",
                           "other.queue"});
  EXPECT_EQ(plan_on("bare", {"--nproc=1"}).exit_code, 0);
}

TEST(OtherDevice, WithoutSemaphoresNothingGoesToFiles) {
  const TempFolder folder;
  const CommandResult refused =
      plan_on("bare", {"--offload=optimizer-state", "--optimizer-state.to=file", "--offload-dir=" + folder.path()});
  EXPECT_EQ(refused.exit_code, 2);
  expect_all(refused.err, {"--offload-dir: the streams of --device bare cannot wait for the host",
                           "leave out --offload-dir and offload to host memory"});
}

TEST(OtherDevice, ACommunicatorThatNoFlagNamesDoesNotEndTheRun) {
  const Flags plan = on_device("other", {"plan", "--model", golden(), "--seq-len=32", "--nproc=2",
                                         "--plugin-dir=" + binary_dir("tests/bad_plugins")});
  const CommandResult asked = Command(tessera(plan), {{"TESSERA_TEST_FAULT", "caps-crash"}}).wait();
  EXPECT_EQ(asked.exit_code, 0) << asked.err;
  expect_all(asked.err,
             {"--comm auto skips the plugin ", "hostile-comm.so, which crashed in its function caps (SIGSEGV)",
              "hostile-gloo-comm.so, which crashed"});
}

TEST(OtherDevice, RanksThatMayShareItMeetOnTheHost) {
  const auto chosen = [](const std::string& share) {
    const CommandResult result = train_on("other", {"--nproc=2", "--plugin-dir=" + binary_dir("tests/devices/there"),
                                                    "--other.share=" + share, "--print-config"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out)["comm"].get<std::string>();
  };
  EXPECT_EQ(chosen("false"), "there");
  EXPECT_EQ(chosen("true"), "gloo");
  const CommandResult run = train_on("other", {"--nproc=2", "--steps=1", "--other.share=true"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  expect_all(run.err, {"; --comm auto chose it, since ranks may share a device under --other.share"});
}

TEST(OtherDevice, ACommunicatorForNeitherDeviceIsRefused) {
  const CommandResult refused = plan_on("other", {"--nproc=2", "--comm=nowhere"});
  EXPECT_EQ(refused.exit_code, 2);
  expect_all(refused.err, {"--comm nowhere works neither on the streams of --device other (other.queue) nor on the "
                           "host's (cpu.queue)",
                           "takes streams of kind moon.queue only"});
}

}  // namespace
}  // namespace tessera::testing
