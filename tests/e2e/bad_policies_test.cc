// Offload policies that load, and are wrong: the run stops before step 1 and says which policy, item and visit it is
// about, and why.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/command.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

std::vector<std::string> with_policy(const std::string& command, const std::string& policy,
                                     const std::vector<std::string>& more) {
  const std::string golden = source_dir("tests/golden/gpt2-nano");
  std::vector<std::string> argv = {tessera_program(),
                                   command,
                                   "--model=" + golden,
                                   "--data=" + golden + "/tokens.bin",
                                   "--batch-size=1",
                                   "--seq-len=8",
                                   "--steps=1",
                                   "--threads=1",
                                   "--plugin-dir=" + binary_dir("tests/bad_policies"),
                                   "--offload=" + policy};
  argv.insert(argv.end(), more.begin(), more.end());
  return argv;
}

CommandResult train(const std::string& policy, const std::vector<std::string>& more) {
  return run_command(with_policy("train", policy, more));
}

void expect_refusal(const CommandResult& run, int exit_code, const std::vector<std::string>& parts) {
  EXPECT_EQ(run.exit_code, exit_code) << run.err;
  for (const std::string& part : parts)
    EXPECT_NE(run.err.find(part), std::string::npos) << part << " is missing in\n" << run.err;
  EXPECT_EQ(run.err.find("tok/s"), std::string::npos) << "it trained:\n" << run.err;
}

struct Fault {
  const char* name;
  std::vector<std::string> parts;

  friend void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }
};

class BadPolicy : public ::testing::TestWithParam<Fault> {};

// What a policy refuses and what is refused of it look alike: exit code 2.
TEST_P(BadPolicy, IsNamedWithItsItemAndVisit) {
  const auto& [name, parts] = GetParam();
  const std::string fault = "--faulty.fault=" + std::string(name);
  expect_refusal(train("faulty", {fault}), 2, parts);
  expect_refusal(train("faulty", {fault, "--nproc=2", "--comm=local"}), 2, parts);
  const CommandResult plan = run_command(with_policy("plan", "faulty", {fault}));
  EXPECT_EQ(plan.exit_code, 2) << plan.out;
  for (const std::string& part : parts)
    EXPECT_NE(plan.err.find(part), std::string::npos) << part << " is missing in\n" << plan.err;
}

INSTANTIATE_TEST_SUITE_P(
    Faults, BadPolicy,
    ::testing::Values(
        Fault{"unknown-item", {"offload policy faulty: [faulty] [host] ", " is not an item"}},
        Fault{"unused-visit",
              {"policy faulty", "(h.3.", ") cannot leave after visit 0, other: that visit does not use it"}},
        Fault{"no-visit",
              {"policy faulty", "(h.3.", ") cannot leave after visit ", ": the last visit of the step is "}},
        Fault{"unknown-place", {"policy faulty", "forward of h.3 mb=0: memory 99 is not one of the view's places"}},
        Fault{"last-use", {"policy faulty", "backward of h.3 mb=0: that is its last use"}},
        Fault{"twice", {"policy faulty", "forward of h.3 mb=0: it leaves then already; give one answer"}},
        Fault{"no-rest",
              {"offload policy faulty: item ",
               "(wte) leaves after visit 1, forward of wte mb=0, and not after its last use",
               "let it leave after its last use too"}},
        Fault{"run-unknown", {"offload policy faulty: [faulty] [host] 1000000 is not the id of an action of the step"}},
        Fault{
            "run-forward",
            {"policy faulty", "(forward) cannot run on the host: only elementwise actions, sum_squares and optimizer"}},
        Fault{"run-twice",
              {"policy faulty", "(optimizer of wte.weight) cannot run on the host: it runs there already"}},
        Fault{"run-optimizer",
              {"offload policy faulty: action ", "(optimizer of wte.weight) cannot run on the host: its operand ",
               "(wte) does not rest in host memory; let it leave for it after its last use"}},
        Fault{"run-squares",
              {"offload policy faulty: action ", "(sum_squares of wte.weight) cannot run on the host: its operand ",
               " is not in host memory then; let it leave for it after visit ", "backward of wte mb=0",
               "the last to use it on the device"}},
        Fault{"run-scalars", {"policy faulty", "(zero) cannot run on the host: its operand ", "(loss) is not an item"}},
        Fault{"error", {"faulty", "cannot decide for this step with fault=error", "give fault=none"}},
        Fault{"options", {"[faulty] fault=options goes with no other option", "see tessera plugins info faulty"}}),
    [](const auto& test) {
      std::string name = test.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

// What it lacks is not the device's memory, so no flags are offered that need less.
TEST(BadPolicy, ThatIsExhaustedWithoutALimitIsNotAnsweredWithFlags) {
  const CommandResult run = train("faulty", {"--faulty.fault=exhausted"});
  EXPECT_NE(run.exit_code, 0);
  EXPECT_NE(run.err.find("offload policy faulty: [faulty] has no room for its tables"), std::string::npos) << run.err;
  for (const char* part : {"more ranks", "changes of flags", "what would fit"})
    EXPECT_EQ(run.err.find(part), std::string::npos) << run.err;
}

TEST(BadPolicy, WithoutAFaultTrains) {
  const CommandResult run = train("faulty", {});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST(BadPolicy, ThatIsNotPureIsNamed) {
  expect_refusal(train("impure", {"--nproc=2", "--comm=gloo"}), 1,
                 {"rank 1 plans a different program than rank 0 planned for it",
                  "an offload policy (impure) is not pure", " host f32["});
}

// Its options are those of a plugin that is not named, as for other kinds.
TEST(BadPolicy, ThatIsNotNamedHasNoOptions) {
  expect_refusal(train("impure", {"--faulty.fault=none"}), 2,
                 {"no plugin of this run has the option --faulty.fault", "impure"});
}

TEST(BadPolicy, IsNamedOnce) {
  expect_refusal(train("faulty,faulty", {}), 2, {"--offload names the policy faulty twice; name each once"});
  expect_refusal(train("faulty," + binary_dir("tests/bad_policies") + "/faulty-offload.so", {}), 2,
                 {"--offload names the policy faulty twice", "faulty-offload.so"});
}

TEST(BadPolicy, OfAnotherKindIsRefused) {
  expect_refusal(train("impure," + plugin_dir() + "/ddp.so", {}), 2,
                 {"ddp.so is a strategy, but --offload needs an offload policy; use it with --strategy"});
  expect_refusal(train("impuer", {}), 2,
                 {"plugin impuer for --offload was not found: no file impuer-offload.so", "did you mean impure?"});
}

}  // namespace
}  // namespace tessera::testing
