#include "launch/launcher.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "base/concat.h"
#include "launch/job_store.h"
#include "launch/launched_ranks.h"
#include "launch/process_setup.h"
#include "launch/run_signals.h"
#include "support/expect_error.h"
#include "support/patience.h"

namespace tessera::host {
namespace {

namespace fs = std::filesystem;
using testing::eventually;
using testing::kNeverMs;
using testing::kPatience;
using testing::kPatienceMs;
using Clock = std::chrono::steady_clock;

class Launcher : public ::testing::Test {
 protected:
  Launcher() {
    std::string pattern = ::testing::TempDir() + "launcher_test.XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~Launcher() override { fs::remove_all(folder_); }

  // Runs a shell script as every rank; $1 is a folder for what it leaves.
  int launch(const std::string& script, int num_ranks, int64_t grace_ms = 300, int64_t kill_ms = 300) {
    LaunchRequest request{"/bin/sh", {"sh", "-c", script, "sh", folder_.string()}, num_ranks};
    request.grace_ms = request.finish_ms = request.signal_grace_ms = grace_ms;
    request.kill_ms = kill_ms;
    request.ranks_say_when_done = ranks_say_when_done_;
    const LaunchResult result = launch_ranks(request, Log(log_, LogLevel::info));
    failure_ = result.failure;
    return result.exit_code;
  }

  std::string read(const std::string& name) {
    std::ifstream in(folder_ / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void wait_for_file(const std::string& name) {
    EXPECT_TRUE(eventually([&] { return fs::exists(folder_ / name); })) << name;
  }
  void expect_log(const std::string& part) {
    EXPECT_NE(log_.str().find(part), std::string::npos) << "'" << part << "' is missing in: " << log_.str();
  }
  void expect_failure(const std::string& part) {
    EXPECT_NE(failure_.find(part), std::string::npos) << "'" << part << "' is missing in: " << failure_;
  }
  // Each rank left its process id in pid.<rank>.
  void expect_no_process_left(int num_ranks) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      const std::string pid = read(concat("pid.", rank));
      if (pid.empty()) continue;
      EXPECT_TRUE(eventually([&] { return ::kill(std::stoi(pid), 0) != 0; }))
          << "rank " << rank << " is process " << pid;
    }
  }

  fs::path folder_;
  std::ostringstream log_;
  std::string failure_;
  bool ranks_say_when_done_ = false;
};

constexpr const char* kNote = "echo $$ > $1/part.$TESSERA_RANK; mv $1/part.$TESSERA_RANK $1/pid.$TESSERA_RANK; ";

TEST_F(Launcher, ARankThatIsStoppedIsSaidWhileItIs) {
  EXPECT_EQ(launch("(sleep 1; kill -CONT $$) & kill -STOP $$; wait", 1), 0);
  expect_log(") is stopped; resume it with kill -CONT ");
}

TEST_F(Launcher, TellsEachRankWhoItIs) {
  EXPECT_EQ(
      launch("echo $TESSERA_RANK $TESSERA_WORLD_SIZE $TESSERA_LOCAL_RANK $TESSERA_LOCAL_SIZE > $1/$TESSERA_RANK", 3),
      0);
  EXPECT_EQ(read("0"), "0 3 0 3\n");
  EXPECT_EQ(read("2"), "2 3 2 3\n");
  EXPECT_EQ(log_.str(), "");
}

TEST_F(Launcher, ReplacesAnOuterJobsVariables) {
  ::setenv("TESSERA_JOB_SECRET", "outer", 1);
  EXPECT_EQ(launch("env | grep -c TESSERA_JOB_SECRET > $1/n; echo $TESSERA_JOB_SECRET > $1/secret", 1), 0);
  ::unsetenv("TESSERA_JOB_SECRET");
  EXPECT_EQ(read("n"), "1\n");
  EXPECT_EQ(read("secret").size(), 33u);
}

TEST_F(Launcher, ReturnsTheFirstFailureAndNamesIt) {
  EXPECT_EQ(launch(std::string(kNote) + "[ $TESSERA_RANK = 1 ] && exit 3; exec sleep 60", 3), 3);
  expect_failure("cause:        rank 1 (process ");
  expect_failure("ended with exit code 3 without an error");
  expect_failure("ended by the launcher: ranks 0, 2");
  expect_no_process_left(3);
}

TEST_F(Launcher, ARankKilledBySignalIsAFailure) {
  EXPECT_EQ(launch(std::string(kNote) + "[ $TESSERA_RANK = 0 ] && kill -9 $$; exec sleep 60", 2), 1);
  expect_failure("cause:        rank 0 (process ");
  expect_failure("killed by signal 9");
  expect_no_process_left(2);
}

TEST_F(Launcher, OthersMayEndByThemselvesWithinTheirGrace) {
  const auto start = Clock::now();
  EXPECT_EQ(launch("[ $TESSERA_RANK = 0 ] && exit 1; sleep 0.3; echo done > $1/$TESSERA_RANK; exit 1", 2, kNeverMs), 1);
  EXPECT_EQ(read("1"), "done\n");
  EXPECT_LT(Clock::now() - start, kPatience);
}

TEST_F(Launcher, RanksThatIgnoreSigtermAreKilled) {
  EXPECT_EQ(launch(std::string(kNote) + "[ $TESSERA_RANK = 0 ] && exit 1; trap '' TERM; while :; do sleep 0.05; done",
                   2, 100, 100),
            1);
  expect_failure("ended by the launcher: rank 1");
  expect_no_process_left(2);
}

TEST_F(Launcher, ARankThatSendsItASignalHasFailed) {
  EXPECT_EQ(launch(std::string(kNote) + "[ $TESSERA_RANK = 1 ] && kill -TERM $PPID; exec sleep 60", 2), 1);
  expect_failure("cause:        rank 1 (process ");
  expect_failure("it has sent SIGTERM to its launcher, which only a plugin can have done");
  expect_no_process_left(2);
}

TEST(Processes, AreBelowThoseThatStartedThem) {
  EXPECT_TRUE(is_below(::getpid(), ::getpid()));
  EXPECT_TRUE(is_below(::getpid(), ::getppid()) || ::getppid() <= 1);
  EXPECT_FALSE(is_below(::getppid(), ::getpid()));
  EXPECT_FALSE(is_below(0, ::getpid()));
}

TEST_F(Launcher, PassesSignalsOn) {
  // Blocked before the sender starts, so that it does not take the signal itself.
  sigset_t term, before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, &before);
  std::thread sender([&] {
    wait_for_file("pid.0");
    wait_for_file("pid.1");
    ::kill(::getpid(), SIGTERM);
  });
  const std::string trap = "trap 'echo got > $1/got.$TESSERA_RANK; exit 0' TERM; ";
  const std::string script = trap + kNote + "while :; do sleep 0.05; done";
  const int code = launch(script, 2, kPatienceMs);
  sender.join();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(code, 0);  // what the ranks made of it
  EXPECT_EQ(read("got.0"), "got\n");
  EXPECT_EQ(read("got.1"), "got\n");
  expect_no_process_left(2);
}

// Between a failure and the end of the job lie the grace and the time for SIGTERM, of ranks that are stopped too.
TEST_F(Launcher, AStoppedRankDoesNotHoldTheEndUp) {
  const auto start = Clock::now();
  EXPECT_EQ(
      launch(std::string(kNote) + "[ $TESSERA_RANK = 1 ] && kill -STOP $$; while [ ! -e $1/pid.1 ]; do sleep 0.01; "
                                  "done; sleep 0.1; exit 1",
             2, 200, 100),
      1);
  EXPECT_LT(Clock::now() - start, kPatience);
  expect_failure("ended by the launcher: rank 1");
  expect_no_process_left(2);
}

TEST_F(Launcher, ARankThatDoesNotEndWithTheOthersIsEnded) {
  EXPECT_EQ(launch(std::string(kNote) + "[ $TESSERA_RANK = 0 ] && exit 0; exec sleep 60", 2, 500), 1);
  expect_failure("cause:        rank 1 (process ");
  expect_no_process_left(2);
}

TEST_F(Launcher, ARankThatExitsWithZeroAndDoesNotSayThatItHasFinishedHasFailed) {
  ranks_say_when_done_ = true;
  const std::string say = concat("printf '\\001' | dd of=/proc/self/fd/$", kEndingsFile, " bs=1 conv=notrunc seek=$((",
                                 sizeof(Ending), " * TESSERA_RANK + ", offsetof(Ending, has_finished), ")) 2>$1/err");
  EXPECT_EQ(launch(say, 2), 0) << read("err");
  EXPECT_EQ(launch(say + "; exit 3", 2), 3);
  EXPECT_EQ(launch("[ $TESSERA_RANK = 1 ] || " + say, 2), 1);
  expect_failure("cause:        rank 1 (process ");
  expect_failure("ended with exit code 0 before the job was done");
}

/// A launch while a thread sends signals.
class Signaled : public Launcher {
 protected:
  /// `send` runs when all ranks have left their process ids; what comes before or after the launch does nothing.
  int launch_and(const std::string& script, int num_ranks, int64_t grace_ms, const std::function<void()>& send) {
    sigset_t blocked, before;
    sigemptyset(&blocked);
    for (const int signal : kEndingSignals) {
      std::signal(signal, [](int) {});
      sigaddset(&blocked, signal);
    }
    pthread_sigmask(SIG_BLOCK, &blocked, &before);  // in the sender, not in the ranks
    std::thread sender([&] {
      for (int rank = 0; rank < num_ranks; ++rank)
        wait_for_file(concat("pid.", rank));
      send();
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    const int code = launch(script, num_ranks, grace_ms);
    is_over_ = true;
    sender.join();
    for (const int signal : kEndingSignals)
      std::signal(signal, SIG_DFL);
    return code;
  }

  std::atomic<bool> is_over_{false};
};

class EndedBy : public Signaled, public ::testing::WithParamInterface<int> {};

TEST_P(EndedBy, ASignalThatIsSaid) {
  const int code =
      launch_and(std::string(kNote) + "exec sleep 60", 1, kPatienceMs, [] { ::kill(::getpid(), GetParam()); });
  EXPECT_EQ(code, 128 + GetParam());
  EXPECT_EQ(failure_, "");
  expect_log(concat("signal ", GetParam(), " ("));
  expect_no_process_left(1);
}
INSTANTIATE_TEST_SUITE_P(Signals, EndedBy, ::testing::Values(SIGINT, SIGTERM, SIGHUP, SIGUSR2, SIGXCPU));

TEST_F(Signaled, RanksThatAreAskedToStopHaveAllTheTimeTheyNeed) {
  testing::with_short_time(100, [this](int64_t grace_ms) {
    fs::remove(folder_ / "pid.0");
    fs::remove(folder_ / "pid.1");
    const std::string trap = concat("trap 'sleep ", grace_ms / 100, "; exit 0' TERM; ");
    EXPECT_EQ(
        launch_and(trap + kNote + "while :; do sleep 0.05; done", 2, grace_ms, [] { ::kill(::getpid(), SIGTERM); }), 0);
    EXPECT_EQ(failure_, "");
  });
  expect_log("the ranks stop after their current step, or at once if none has begun; another one ends them at once");
}

TEST_F(Signaled, ASecondRequestToStopKillsTheRanks) {
  const std::string script = concat("trap '' TERM; ", kNote, "while :; do sleep 0.05; done");
  const auto start = Clock::now();
  const int code = launch_and(script, 2, kNeverMs, [this] {
    for (; !is_over_; std::this_thread::sleep_for(std::chrono::milliseconds(50)))
      ::kill(::getpid(), SIGTERM);
  });
  EXPECT_EQ(code, 128 + SIGTERM);
  EXPECT_GE(Clock::now() - start, kOneRequest);  // all that come together are the first
  expect_log("): killing the ranks");
  expect_no_process_left(2);
}

TEST_F(Signaled, OneRankIsAskedToSave) {
  const std::string script = concat("trap 'echo > $1/saved.$TESSERA_RANK' USR1; ", kNote,
                                    "until [ -f $1/saved.0 ] || [ -f $1/saved.1 ]; do sleep 0.05; done; sleep 0.2");
  EXPECT_EQ(launch_and(script, 2, kNeverMs, [] { ::kill(::getpid(), SIGUSR1); }), 0);
  EXPECT_NE(fs::exists(folder_ / "saved.0"), fs::exists(folder_ / "saved.1"));
}

// The launcher itself is killed outright.
TEST_F(Launcher, RanksDieWithTheirLauncher) {
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    launch(std::string(kNote) + "exec sleep 60", 2);
    ::_exit(0);
  }
  wait_for_file("pid.0");
  wait_for_file("pid.1");
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  expect_no_process_left(2);
}

TEST_F(Launcher, WhatCannotBeStartedIsAnError) {
  testing::expect_error(
      [&] {
        launch_ranks({"/no/such/program", {"x"}, 1}, Log(log_, LogLevel::info));
      },
      {"/no/such/program", "No such file"});
}

TEST(OwnExecutable, IsThisProgram) {
  EXPECT_EQ(fs::path(own_executable()).filename(), "launcher_test");
}

// Ranks of a foreign launcher: rank 0 serves.
TEST(JobStore, RanksOfAForeignLauncherMeetAtRankZero) {
  constexpr int kRanks = 3;
  const uint16_t port = TcpStoreServer("127.0.0.1", 0, "x").port();
  std::vector<std::thread> threads;
  std::atomic<int> met{0};
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      RankEnvironment environment;
      environment.rank = rank;
      environment.world_size = environment.local_size = kRanks;
      environment.store_host = "127.0.0.1";
      environment.store_port = port;
      environment.secret = "shared";
      environment.serves_store = rank == 0;
      const JobStore job = join_job(environment, kPatienceMs, Log(LogLevel::off));
      job.store->set(concat("rank", rank), "here");
      for (int peer = 0; peer < kRanks; ++peer)
        if (job.store->get(concat("rank", peer), kPatienceMs) == "here") ++met;
      job.store->add("done", 1);
      while (rank == 0 && job.store->add("done", 0) < kRanks)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    });
  }
  for (auto& thread : threads)
    thread.join();
  EXPECT_EQ(met, kRanks * kRanks);
}

TEST(JobStore, OneRankNeedsNoServer) {
  const JobStore job = join_job({}, 0, Log(LogLevel::off));
  EXPECT_EQ(job.server, nullptr);
  job.store->set("key", "value");
  EXPECT_EQ(job.store->get("key", 0), "value");
}

}  // namespace
}  // namespace tessera::host
