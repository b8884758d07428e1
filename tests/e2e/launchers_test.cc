// Jobs that other launchers start: torchrun, mpirun of Open MPI and of MPICH, srun. The commands are those of
// docs/launching.md. Tests of a launcher that is not installed, or cannot run here, are skipped with the reason.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <regex>
#include <sstream>
#include <vector>

#include "e2e/cli.h"
#include "support/paths.h"
#include "support/processes.h"
#include "support/slurm.h"

namespace tessera::testing {
namespace {

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is missing in\n" << text;
}

/// Started when the first test needs it.
SlurmCluster& cluster() {
  static SlurmCluster one;
  return one;
}

Words split(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

/// The part of docs/launching.md from `begin` on, to `end`; both are left out.
std::string documented(const std::string& begin, const std::string& end) {
  const std::string text = file_bytes(source_dir("docs/launching.md"));
  const size_t at = text.find(begin);
  if (at == text.npos) throw std::runtime_error("docs/launching.md does not show " + begin);
  return text.substr(at + begin.size(), text.find(end, at + begin.size()) - at - begin.size());
}

struct Launcher {
  const char* name;
  const char* shown;    ///< how its command begins in docs/launching.md
  const char* program;  ///< that must be installed
  const char* source;   ///< where ranks read that they are ranks
  Variables variables;
  int exit_code_when_stopped;
};

const Launcher kLaunchers[] = {{"torchrun", "torchrun", "torchrun", "torchrun", {}, 1},
                               // Root may start jobs, with more ranks than cores.
                               {"OpenMpi",
                                "mpirun",
                                "mpirun.openmpi",
                                "Open MPI",
                                {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                 {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                 {"OMPI_MCA_rmaps_base_oversubscribe", "1"}},
                                1},
                               {"Mpich", "mpirun", "mpirun.mpich", "MPICH", {}, 0},
                               {"srun", "srun", "srun", "Slurm", {}, 0}};

void PrintTo(const Launcher& launcher, std::ostream* out) {
  *out << launcher.name;
}

/// Why the launcher cannot be used here; "" if it can.
std::string obstacle(const Launcher& launcher, const Words& start) {
  if (std::string_view(launcher.name) == "srun") return cluster().obstacle();
  Words probe = start;
  probe.push_back("true");
  const CommandResult result = run_command(probe, launcher.variables);
  if (result.exit_code == 127) return std::string("needs ") + launcher.program + ", which is not installed";
  return result.exit_code == 0 ? "" : launcher.program + (" cannot start processes here: " + result.err);
}

class Launched : public ::testing::TestWithParam<Launcher> {
 protected:
  void SetUp() override {
    command_ = split(launcher().shown + documented(std::string("\n    ") + launcher().shown, "\n"));
    command_[0] = launcher().program;
    const auto program = std::ranges::find(command_, "tessera");
    flags_.assign(program + 1, command_.end());
    command_.erase(program, command_.end());
    static std::map<std::string, std::string> obstacles;
    if (!obstacles.contains(launcher().name)) obstacles[launcher().name] = obstacle(launcher(), command_);
    if (const std::string& text = obstacles[launcher().name]; !text.empty()) GTEST_SKIP() << text;
    variables_ = launcher().variables;
    if (is_slurm()) variables_.merge(cluster().environment());
    variables_["TESSERA_TEST_JOB"] = folder_.path();  // by which ranks are found
  }
  void TearDown() override {
    for (const int rank : ranks())
      kill(rank, SIGKILL);
  }

  static const Launcher& launcher() { return GetParam(); }
  static bool is_slurm() { return std::string_view(launcher().name) == "srun"; }

  Words launched(const Words& tessera_command) const {
    Words all = command_;
    all.insert(all.end(), tessera_command.begin(), tessera_command.end());
    return all;
  }
  std::vector<int> ranks() const { return processes_of(tessera_program(), "TESSERA_TEST_JOB=" + folder_.path()); }

  /// Two ranks in the middle of a run that nothing ends by itself, not even a time-out.
  std::unique_ptr<Command> start_training() const {
    const std::string never = std::to_string(kNeverMs);
    // Steps that take a while: Open MPI reads no output while it ends a job, and a pipe that is full stops a rank.
    auto job = std::make_unique<Command>(launched(train({"--steps=1000000", "--grad-accum=8", "--strategy=fsdp",
                                                         "--timeout-ms=" + never, "--start-timeout-ms=" + never})),
                                         variables_);
    EXPECT_TRUE(job->wait_for("step    3/")) << job->err();
    EXPECT_EQ(ranks().size(), 2u);
    return job;
  }

  /// What asks the run to stop after a step.
  void stop(const Command& job) const {
    if (!is_slurm()) {
      kill(job.pid(), SIGTERM);
      return;
    }
    const CommandResult jobs = run_command({"squeue", "--noheader", "--format=%A"}, variables_);
    must_run({"scancel", "--signal=TERM", split(jobs.out).at(0)});
  }
  void must_run(const Words& argv) const {
    const CommandResult result = run_command(argv, variables_);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  void expect_no_rank_left() const {
    EXPECT_TRUE(eventually([&] { return ranks().empty(); })) << "ranks were left behind";
  }

  TempFolder folder_;
  Words command_;  ///< before `tessera`
  Words flags_;    ///< after it
  Variables variables_;
};

/// The names and bytes of all files in a checkpoint.
std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), folder)] = file_bytes(entry.path().string());
  return files;
}

TEST_P(Launched, TheCommandShownHasTheBitsOfNproc) {
  const auto run = [&](Words command, const Words& more, const std::string& name) {
    command.insert(command.end(), flags_.begin(), flags_.end());
    command.insert(command.end(), more.begin(), more.end());
    command.insert(command.end(), {"--threads=1", "--steps=3", "--save=" + folder_.path(name),
                                   "--metrics=" + folder_.path(name + ".jsonl")});
    const Words there = {"sh", "-c", "cd " + source_dir() + " && exec \"$@\"", "sh"};
    command.insert(command.begin(), there.begin(), there.end());
    const CommandResult result = run_command(command, variables_);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<std::string> steps;
    for (const auto& step : read_metrics(folder_.path(name + ".jsonl")))
      if (step.contains("step")) steps.push_back(step.at("loss").dump() + " " + step.at("grad_norm").dump());
    EXPECT_EQ(steps.size(), 3u) << result.err;
    return std::pair(steps, result.err);
  };
  const auto [expected, ours] = run({tessera_program()}, {"--nproc=2"}, "nproc");
  const auto [found, theirs] = run(launched({tessera_program()}), {}, "launched");
  expect_part(theirs, std::string("rank 0 of 2, from ") + launcher().source);
  EXPECT_EQ(found, expected);
  EXPECT_TRUE(files_in(folder_.path("launched")) == files_in(folder_.path("nproc"))) << "the checkpoints differ";
}

TEST_P(Launched, SigtermStopsItAfterAStep) {
  variables_["OMPI_MCA_odls_base_sigkill_timeout"] = "2";  // s, for a step on a busy machine
  const auto job = start_training();
  stop(*job);
  const CommandResult result = job->wait();
  EXPECT_EQ(result.exit_code, launcher().exit_code_when_stopped) << result.err;
  EXPECT_TRUE(std::regex_search(result.err, std::regex("stopped after step \\d+ of 1000000, as SIGTERM asked")))
      << result.err;
  expect_no_rank_left();
}

TEST_P(Launched, AKilledRankEndsAllOfThem) {
  for (const size_t killed : {0u, 1u}) {
    const auto job = start_training();
    kill(ranks().at(killed), SIGKILL);
    const CommandResult result = job->wait();
    EXPECT_NE(result.exit_code, 0) << result.err;
    expect_no_rank_left();
  }
}

TEST_P(Launched, AWrongFlagIsReportedAndEndsAllOfThem) {
  Command job(launched(train({"--nonsense=1"})), variables_);
  const CommandResult result = job.wait();
  EXPECT_NE(result.exit_code, 0);
  expect_part(result.err, "unknown flag --nonsense");
  expect_no_rank_left();
}
INSTANTIATE_TEST_SUITE_P(Jobs, Launched, ::testing::ValuesIn(kLaunchers),
                         [](const auto& test) { return test.param.name; });

class Torchrun : public Launched {};

TEST_P(Torchrun, RestartsGoOnFromTheLastCheckpoint) {
  command_.insert(command_.begin() + 1, {"--max_restarts", "1"});
  Command job(launched(train({"--steps=200", "--strategy=fsdp", "--save=" + folder_.path("saved"), "--save-every=10",
                              "--resume=" + folder_.path("saved")})),
              variables_);
  ASSERT_TRUE(job.wait_for("step   20/")) << job.err();
  kill(ranks().at(1), SIGKILL);
  const CommandResult result = job.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(std::regex_search(result.err, std::regex("after step [1-9]\\d*"))) << result.err;
}
INSTANTIATE_TEST_SUITE_P(Jobs, Torchrun, ::testing::Values(kLaunchers[0]), [](const auto&) { return "torchrun"; });

class Slurm : public Launched {
 protected:
  /// Submits the script from the folder; returns the job's number. Its output goes to "output" there.
  std::string submit(const std::string& text) {
    const std::string script = folder_.write("script", text), output = folder_.path("output");
    const CommandResult result = run_command(
        {"sbatch", "--parsable", "--chdir=" + source_dir(), "--output=" + output, script}, with_tessera_on_path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out.substr(0, result.out.find('\n'));
  }
  std::string output() const { return file_bytes(folder_.path("output")); }
  bool says(const std::string& text) const {
    return eventually(
        [&] { return std::filesystem::exists(folder_.path("output")) && output().find(text) != std::string::npos; });
  }
  Variables with_tessera_on_path() const {
    Variables all = variables_;
    const std::string folder = std::filesystem::path(tessera_program()).parent_path();
    all["PATH"] = folder + ":" + std::getenv("PATH");
    return all;
  }
};

// Ranks meet at the first node of the list.
TEST_P(Slurm, TheScriptShownRunsOnTwoNodes) {
  std::string script = "#!/bin/sh\n" + documented("```\n#!/bin/sh\n", "```");
  script.insert(script.rfind('\n'), " --threads 1 --steps 3");
  submit(script);
  EXPECT_TRUE(says("done: 3 steps")) << output();
  expect_part(output(), "rank 0 of 2, from Slurm");
  expect_no_rank_left();
}

// What signals.md says to write for --signal=B:TERM, which signals the script alone.
TEST_P(Slurm, TheScriptThatPassesASignalOnStopsTheRun) {
  const std::string page = file_bytes(source_dir("docs/signals.md"));
  const size_t at = page.find("srun tessera train ... &\n");
  ASSERT_NE(at, page.npos);
  std::string script = page.substr(at, page.find("```", at) - at), flags;
  for (const std::string& word : train({"--steps=1000000", "--strategy=fsdp"}))
    flags += (flags.empty() ? "" : " ") + word;
  script.replace(script.find("tessera train ..."), 17, flags);
  const std::string job = submit("#!/bin/sh\n#SBATCH --ntasks=2\n" + script);
  ASSERT_TRUE(says("step    3/")) << output();
  must_run({"scancel", "--batch", "--signal=TERM", job});
  EXPECT_TRUE(says("as SIGTERM asked")) << output();
  const auto state = [&] {
    return run_command({"squeue", "--noheader", "--states=all", "--format=%T", "--jobs=" + job}, variables_).out;
  };
  EXPECT_TRUE(eventually([&] { return state() == "COMPLETED\n"; })) << state() << output();
  expect_no_rank_left();
}
INSTANTIATE_TEST_SUITE_P(Jobs, Slurm, ::testing::Values(kLaunchers[3]), [](const auto&) { return "srun"; });

}  // namespace
}  // namespace tessera::testing
