// What signals do to a run: it stops after a step that all ranks agree on, or ends at once; it saves.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <string>
#include <thread>

#include "e2e/cli.h"
#include "support/free_port.h"
#include "support/processes.h"

namespace tessera::testing {
namespace {

using Clock = std::chrono::steady_clock;
using Flags = std::vector<std::string>;

constexpr const char* kSteps = "--steps=1000000";

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is missing in\n" << text;
}

void wait_for_steps(const Command& run) {
  ASSERT_TRUE(run.wait_for("step    3/")) << run.err();
}

/// The step after which the run stopped; 0: it does not say so.
int64_t stopped_after(const std::string& err) {
  std::smatch match;
  const bool is_said = std::regex_search(err, match, std::regex("stopped after step (\\d+) of 1000000, as "));
  return is_said ? std::stoll(match[1]) : 0;
}

/// Whether the process's first thread has the signal in that mask: "SigBlk:", "SigIgn:".
bool has_in(const char* mask, pid_t pid, int signal) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;)
    if (word == mask) return status >> word && std::stoull(word, nullptr, 16) >> (signal - 1) & 1;
  return false;
}

bool blocks(pid_t pid, int signal) {
  return has_in("SigBlk:", pid, signal);
}

bool ignores(pid_t pid, int signal) {
  return has_in("SigIgn:", pid, signal);
}

int64_t saves_in(const std::string& metrics) {
  return std::ranges::count(read_json_lines(metrics), "save",
                            [](const nlohmann::json& line) { return line.value("kind", ""); });
}

/// Sends the signal until the process ends.
CommandResult insist(Command& run, int signal) {
  eventually([&] {
    kill(run.pid(), signal);
    return !is_running(run.pid());
  });
  return run.wait();
}

/// Ranks of torchrun's variables, each a process of its own.
class ByHand {
 public:
  ByHand(int num_ranks, const Flags& flags) {
    const int port = free_port() - 1;
    for (int rank = 0; rank < num_ranks; ++rank)
      ranks_.push_back(std::make_unique<Command>(train(flags), torchrun_variables(rank, num_ranks, port)));
  }
  Command& operator[](size_t rank) { return *ranks_[rank]; }
  size_t size() const { return ranks_.size(); }

 private:
  std::vector<std::unique_ptr<Command>> ranks_;
};

TEST(ARunOfOneRank, StopsAfterAStep) {
  for (const auto& [signal, name] : {std::pair{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}}) {
    const TempFolder folder;
    Command run(train({kSteps, "--metrics=" + folder.path("metrics")}));
    wait_for_steps(run);
    kill(run.pid(), signal);
    const CommandResult result = run.wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    expect_part(result.err,
                std::string("tessera: ") + name + ": the run stops after a step; another one ends it at once");
    expect_part(result.err, std::string("as ") + name + " asked");
    EXPECT_EQ(read_metrics(folder.path("metrics")).back()["step"], stopped_after(result.err));
  }
}

// An evaluation may take longer than a scheduler waits for the end.
TEST(ARunOfOneRank, StopsBeforeItEvaluates) {
  const TempFolder folder;
  const std::string metrics = folder.path("metrics");
  Command run(train(
      {kSteps, "--metrics=" + metrics, "--eval-data=" + golden("/tokens.bin"), "--eval-every=1", "--eval-batches=1"}));
  wait_for_steps(run);
  kill(run.pid(), SIGTERM);
  const CommandResult result = run.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  int64_t last_evaluated = 0;
  for (const nlohmann::json& line : read_json_lines(metrics))
    if (line.value("kind", "") == "eval") last_evaluated = line["after_step"];
  EXPECT_EQ(last_evaluated, stopped_after(result.err) - 1);
}

TEST(AnEvaluation, EndsAtTheFirstSignal) {
  const TempFolder folder;
  const std::string tokens = folder.write("tokens.bin", std::string(size_t{64} << 20, '\0'));
  for (const char* nproc : {"--nproc=1", "--nproc=2"}) {
    Command run(tessera({"eval", golden(), "--data", tokens, "--seq-len=8", "--batch-size=1", "--threads=1", nproc}));
    ASSERT_TRUE(run.wait_for("raw uint16 tokens")) << run.err();
    kill(run.pid(), SIGUSR1);  // changes nothing
    kill(run.pid(), SIGTERM);
    const CommandResult result = run.wait();
    EXPECT_EQ(result.exit_code, 128 + SIGTERM);
    EXPECT_EQ(result.err.find("after a step"), std::string::npos) << result.err;
  }
}

TEST(ABenchmark, EndsAtTheFirstSignal) {
  Command run(tessera({"bench", "comm", "--nproc=2", "--iters=1000000"}));
  ASSERT_TRUE(eventually([&] { return children_of(run.pid()).size() == 2; }));
  kill(run.pid(), SIGUSR1);
  ASSERT_TRUE(run.wait_for("these ranks have no checkpoint to save")) << run.err();
  kill(run.pid(), SIGINT);
  const CommandResult result = run.wait();
  EXPECT_EQ(result.exit_code, 128 + SIGINT) << result.err;
  EXPECT_EQ(result.err.find("after a step"), std::string::npos) << result.err;
}

TEST(ABenchmark, OfOneProcessIgnoresARequestToSave) {
  const TempFolder folder;
  Command run(tessera({"bench", "disk", folder.path(), "--checkpoint-size=64MiB"}));
  ASSERT_TRUE(eventually([&] { return ignores(run.pid(), SIGUSR1); })) << run.err();
  kill(run.pid(), SIGUSR1);
  kill(run.pid(), SIGTERM);
  EXPECT_EQ(run.wait().exit_code, 128 + SIGTERM);
}

// The shell's child inherits that SIGCHLD is ignored, and then the system keeps no exit status of its children.
#ifndef TESSERA_IS_SANITIZED  // where the sanitizer takes the signal
// It may arrive while a plugin works, which has not crashed then.
TEST(ARunOfOneRank, NamesWhoSentASignalOfCrashes) {
  Command run(train({kSteps}));
  wait_for_steps(run);
  kill(run.pid(), SIGSEGV);
  const CommandResult result = run.wait();
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV);
  expect_part(result.err, "tessera: ended by SIGSEGV, which process " + std::to_string(::getpid()) + " sent");
  EXPECT_EQ(result.err.find("crashed"), std::string::npos) << result.err;
}
#endif

TEST(ALaunchedJob, EndsWhereSigchldIsIgnored) {
  std::string command = "trap '' CHLD; exec";
  for (const std::string& word : train({"--steps=2", "--nproc=2"}))
    command += " '" + word + "'";
  const CommandResult result = run_command({"/bin/bash", "-c", command});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

// As `timeout` does, and a group whose launcher passes signals on.
TEST(ARunOfOneRank, TakesTwoSignalsAtOnceForOne) {
  with_short_time(0, [](int64_t) {  // those that a busy machine delays are not at once
    Command run(train({kSteps}));
    wait_for_steps(run);
    kill(run.pid(), SIGTERM);
    kill(run.pid(), SIGINT);
    kill(run.pid(), SIGTERM);
    const CommandResult result = run.wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_GT(stopped_after(result.err), 0) << result.err;
  });
}

TEST(ARunOfOneRank, SaysThatItSavesNothing) {
  Command run(train({kSteps}));
  wait_for_steps(run);
  kill(run.pid(), SIGUSR1);
  ASSERT_TRUE(run.wait_for("SIGUSR1 asks for a checkpoint, but this run saves none")) << run.err();
  kill(run.pid(), SIGTERM);
  EXPECT_EQ(run.wait().exit_code, 0);
}

/// How many threads of the process receive the signal, and how many there are.
std::pair<int, int> receivers(int pid, int signal) {
  int num_receive = 0, num_threads = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::ifstream in(task.path() / "status");
    for (std::string line; std::getline(in, line);)
      if (line.starts_with("SigBlk:")) {
        ++num_threads;
        num_receive += (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) == 0;
      }
  }
  return {num_receive, num_threads};
}

// On a thread of a library a handler would interrupt its system calls. The one that waits for signals receives them.
TEST(ARunOfOneProcess, ReceivesSignalsOnOneThread) {
  for (const Flags& flags : {Flags{"--nproc=2", "--comm=local"}, Flags{}}) {
    Flags all = {kSteps};
    all.insert(all.end(), flags.begin(), flags.end());
    Command run(train(all));
    wait_for_steps(run);
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
      const auto [num_receive, num_threads] = receivers(run.pid(), signal);
      EXPECT_LE(num_receive, 1) << "of " << num_threads << " threads receive signal " << signal;
      EXPECT_GT(num_threads, 2);
    }
    kill(run.pid(), SIGINT);
    EXPECT_EQ(run.wait().exit_code, 0);
  }
}

class Strategies : public ::testing::TestWithParam<Flags> {};

/// Three ranks over gloo.
Flags three_ranks(const Flags& more) {
  Flags flags = {kSteps, "--comm=gloo"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

TEST_P(Strategies, ASignalToOneRankStopsAllAfterTheSameStep) {
  const TempFolder folder;
  Flags flags = three_ranks(GetParam());
  flags.push_back("--metrics=" + folder.path("metrics"));
  ByHand job(3, flags);
  wait_for_steps(job[0]);
  kill(job[2].pid(), SIGTERM);
  std::vector<CommandResult> results;
  for (size_t rank = 0; rank < job.size(); ++rank)
    results.push_back(job[rank].wait());
  for (const CommandResult& result : results)
    EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_part(results[0].err, "as a signal to another rank asked; nothing was saved");
  expect_part(results[2].err, "tessera: SIGTERM: the run stops after a step");
  EXPECT_EQ(read_metrics(folder.path("metrics")).back()["step"], stopped_after(results[0].err));
}

TEST_P(Strategies, TheLauncherPassesASignalOn) {
  Flags flags = three_ranks(GetParam());
  flags.push_back("--nproc=3");
  Command run(train(flags));
  wait_for_steps(run);
  const std::vector<int> ranks = children_of(run.pid());
  kill(run.pid(), SIGTERM);
  const CommandResult result = run.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_part(result.err,
              "the ranks stop after their current step, or at once if none has begun; another one ends them at once");
  expect_part(result.err, "as SIGTERM asked");
  EXPECT_EQ(result.err.find("tessera: SIGTERM"), std::string::npos) << "said twice:\n" << result.err;
  for (const int rank : ranks)
    EXPECT_FALSE(is_running(rank)) << "process " << rank << " was left behind";
}
constexpr const char* kNames[] = {"ddp", "fsdp", "zero3", "pipeline"};
INSTANTIATE_TEST_SUITE_P(Signals, Strategies,
                         ::testing::Values(Flags{"--strategy=ddp"}, Flags{"--strategy=fsdp"}, Flags{"--strategy=zero3"},
                                           Flags{"--mesh=pp=3", "--strategy=pp=pipeline"}),
                         [](const auto& test) { return kNames[test.index]; });

TEST(ALaunchedJob, ThatIsSignaledAsAGroupStopsOnce) {
  Command run(train(three_ranks({"--nproc=3"})));
  wait_for_steps(run);
  kill(-run.pid(), SIGINT);  // as a terminal does at ^C
  const CommandResult result = run.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_GT(stopped_after(result.err), 0) << result.err;
}

TEST(ALaunchedJob, PassesAWishToSaveOnToOneRank) {
  Command run(train(three_ranks({"--nproc=3"})));
  wait_for_steps(run);
  kill(run.pid(), SIGUSR1);
  ASSERT_TRUE(run.wait_for("SIGUSR1 asks for a checkpoint")) << run.err();
  kill(run.pid(), SIGTERM);
  const CommandResult result = run.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_part(result.err, "): asking one rank for a checkpoint");
  EXPECT_EQ(result.err.find("SIGUSR1 asks"), result.err.rfind("SIGUSR1 asks")) << result.err;
}

/// From its first moments on, while it plans, loads, or starts its ranks.
TEST(ARun, TakesAWishToSaveThatComesEarly) {
  for (const Flags& flags : {Flags{}, {"--nproc=3", "--strategy=fsdp"}, {"--nproc=3", "--comm=local"}})
    for (const int ms : {0, 5, 20}) {
      const TempFolder folder;
      Flags job = {"--steps=20", "--metrics", folder.path("metrics"), "--save", folder.path("save")};
      job.insert(job.end(), flags.begin(), flags.end());
      Command run(train(job));
      // Not while it starts a thread, which blocks all signals for a moment.
      eventually([&] { return blocks(run.pid(), SIGUSR1) && !blocks(run.pid(), SIGWINCH); });
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
      kill(run.pid(), SIGUSR1);
      const CommandResult result = run.wait();
      EXPECT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(saves_in(folder.path("metrics")), 2) << result.err;  // and the last
    }
}

// With a rank stopped no step ends.
TEST(ALaunchedJob, EndsAtOnceAtTheSecondSignal) {
  Command run(train(three_ranks({"--nproc=3"})));
  wait_for_steps(run);
  const std::vector<int> ranks = children_of(run.pid());
  ASSERT_EQ(ranks.size(), 3u);
  kill(ranks[1], SIGSTOP);
  const auto start = Clock::now();
  const CommandResult result = insist(run, SIGTERM);
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result.err;
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(500));
  expect_part(result.err, "): killing the ranks");
  for (const int rank : ranks)
    EXPECT_FALSE(is_running(rank)) << "process " << rank << " was left behind";
}

TEST(ARank, EndsAtOnceAtTheSecondSignal) {
  ByHand job(2, {kSteps});
  wait_for_steps(job[0]);
  kill(job[1].pid(), SIGSTOP);
  const auto start = Clock::now();
  const CommandResult result = insist(job[0], SIGINT);
  EXPECT_EQ(result.exit_code, 128 + SIGINT) << result.err;
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(500));
  expect_part(result.err, "tessera: SIGINT: the run stops after a step");
  expect_part(result.err, "tessera: ended by signal SIGINT");
}

/// Rank 0 of two by hand, which waits for rank 1.
std::map<std::string, std::string> without_rank_1() {
  return torchrun_variables(0, 2, free_port() - 1);
}

TEST(ARank, EndsAtOnceBeforeItsFirstStep) {
  Command alone(train({kSteps}), without_rank_1());
  ASSERT_TRUE(alone.wait_for("rank 0 of 2, from torchrun")) << alone.err();
  kill(alone.pid(), SIGTERM);
  const CommandResult result = alone.wait();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  expect_part(result.err, "tessera: ended by signal SIGTERM");
}

// The system does not let the first process of a container die of a signal's default action.
class FirstProcess : public ::testing::Test {
 protected:
  void SetUp() override {
    Flags probe = kUnshare;
    probe.push_back("true");
    if (run_command(probe).exit_code != 0) GTEST_SKIP() << "needs the right to make a namespace of process ids (root)";
  }
  /// The command gets the signal when it has written `line`, and is ended by it.
  static void expect_ended(int signal, const Flags& words, const std::string& line,
                           const std::map<std::string, std::string>& variables = {}) {
    Flags command = kUnshare;
    command.insert(command.end(), words.begin(), words.end());
    Command container(command, variables);
    ASSERT_TRUE(container.wait_for(line)) << container.err();
    kill(children_of(container.pid()).at(0), signal);
    const CommandResult result = container.wait();
    EXPECT_EQ(result.exit_code, 128 + signal) << result.err;
    expect_part(result.err, std::string("tessera: ended by signal SIG") + ::sigabbrev_np(signal));
    EXPECT_EQ(result.err.find("called exit"), std::string::npos) << result.err;
  }

  inline static const Flags kUnshare = {"unshare", "--pid", "--fork", "--kill-child"};
};

TEST_F(FirstProcess, ThatWaitsForOtherRanks) {
  expect_ended(SIGTERM, train({kSteps}), "rank 0 of 2, from torchrun", without_rank_1());
}

// A signal that finds the thread in a plugin's call is not that plugin's exit.
TEST_F(FirstProcess, ThatTrains) {
  for (const int signal : {SIGHUP, SIGUSR2, SIGXCPU})
    expect_ended(signal, train({kSteps}), "step ");
}

TEST_F(FirstProcess, ThatPlans) {
  expect_ended(SIGTERM, tessera({"plan", "--model", golden(), "--grad-accum=27777"}), " s so far");
}

}  // namespace
}  // namespace tessera::testing
