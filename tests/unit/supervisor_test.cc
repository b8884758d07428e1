// Each test runs supervise() in a process of its own, which is the supervisor, and looks at what that process says and
// how it ends.
#include "guard/supervisor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "base/ending.h"
#include "support/patience.h"
#include "support/processes.h"

namespace tessera::host {
namespace {

using testing::children_of;
using testing::eventually;
using testing::is_running;

/// A supervisor, below which `run` takes place.
class Supervisor {
 public:
  explicit Supervisor(const std::function<int()>& run, int64_t stopped_ms = 300'000)
      : err_(::testing::TempDir() + "supervisor_test." + std::to_string(::getpid())) {
    id_ = ::fork();
    if (id_ != 0) return;
    const int err = ::open(err_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    ::dup2(err, STDERR_FILENO);
    const auto exit_code = supervise(stopped_ms);
    ::_exit(exit_code ? *exit_code : run());
  }
  ~Supervisor() {
    if (!has_ended_) ::kill(id_, SIGKILL), ::waitpid(id_, nullptr, 0);
    ::unlink(err_.c_str());
  }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// The exit code, or 128 + the signal.
  int end() {
    int status = 0;
    ::waitpid(id_, &status, 0);
    has_ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string said() const {
    std::ifstream in(err_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  pid_t id() const { return id_; }
  /// The process of the run, once it exists.
  pid_t run_id() const {
    EXPECT_TRUE(eventually([&] { return !children_of(id_).empty(); }));
    return children_of(id_).at(0);
  }

 private:
  const std::string err_;
  pid_t id_ = -1;
  bool has_ended_ = false;
};

int wait_for_ever() {
  for (;;)
    ::pause();
}

int die_of(int signal) {
  ::signal(signal, SIG_DFL);
  ::raise(signal);
  return wait_for_ever();
}

/// As the program does at its end.
int finish() {
  ending->has_finished = true;
  return 0;
}

TEST(Supervisor, ReturnsZeroOnlyForARunThatSaysThatItFinished) {
  Supervisor finished(finish);
  EXPECT_EQ(finished.end(), 0);
  EXPECT_EQ(finished.said(), "");
  Supervisor ended([] { return 0; });
  EXPECT_EQ(ended.end(), 1);
  EXPECT_NE(ended.said().find("a plugin has ended the process of the run with exit code 0"), std::string::npos);
  Supervisor failed([] { return ending->is_told = true, 2; });
  EXPECT_EQ(failed.end(), 2);
  EXPECT_EQ(failed.said(), "");
  Supervisor wordless([] { return 2; });
  EXPECT_EQ(wordless.end(), 2);
  EXPECT_NE(wordless.said().find("a plugin has ended the process of the run with exit code 2"), std::string::npos);
}

TEST(Supervisor, DiesOfTheSignalThatTheRunDiedOf) {
  Supervisor killed([] { return die_of(SIGKILL); });
  EXPECT_EQ(killed.end(), 128 + SIGKILL);
  EXPECT_NE(killed.said().find("killed by signal 9 (SIGKILL)"), std::string::npos) << killed.said();
  Supervisor hung_up([] { return die_of(SIGHUP); });
  EXPECT_EQ(hung_up.end(), 128 + SIGHUP);
  EXPECT_NE(hung_up.said().find("killed by signal 1 (SIGHUP)"), std::string::npos) << hung_up.said();
  Supervisor told([] {
    ending->is_told = true;
    return die_of(SIGSEGV);
  });
  EXPECT_EQ(told.end(), 128 + SIGSEGV);
  EXPECT_EQ(told.said(), "");
}

TEST(Supervisor, PassesSignalsOn) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    Supervisor asked([signal] {
      sigset_t one;
      sigemptyset(&one);
      sigaddset(&one, signal);
      ::sigprocmask(SIG_BLOCK, &one, nullptr);
      const std::string ready = "ready\n";
      if (::write(STDERR_FILENO, ready.data(), ready.size()) < 0) return 3;
      int received = 0;
      ::sigwait(&one, &received);
      return received == signal ? finish() : 4;
    });
    ASSERT_TRUE(eventually([&] { return asked.said() == "ready\n"; }));
    ::kill(asked.id(), signal);
    EXPECT_EQ(asked.end(), 0) << signal;
  }
}

TEST(Supervisor, EndsARunThatSendsItASignal) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    Supervisor asked([signal] { return ::kill(::getppid(), signal), wait_for_ever(); });
    EXPECT_EQ(asked.end(), 1);
    EXPECT_NE(asked.said().find("only a plugin can have done that, so the run ends"), std::string::npos)
        << asked.said();
  }
}

TEST(Supervisor, TakesTheRunWithIt) {
  pid_t run = -1;
  {
    Supervisor killed(wait_for_ever);
    run = killed.run_id();
    ASSERT_GT(run, 0);
  }
  EXPECT_TRUE(eventually([&] { return !is_running(run); }));
}

TEST(Supervisor, EndsARunThatStaysStopped) {
  Supervisor stopped([] { return ::raise(SIGSTOP), finish(); }, 300);
  EXPECT_EQ(stopped.end(), 128 + SIGKILL);
  EXPECT_NE(stopped.said().find("is stopped; resume it with kill -CONT"), std::string::npos) << stopped.said();
  EXPECT_NE(stopped.said().find("was stopped for 0.3 s"), std::string::npos) << stopped.said();
  EXPECT_EQ(stopped.said().find("killed by signal"), std::string::npos) << "said twice";
}

TEST(Supervisor, LetsAStoppedRunGoOn) {
  Supervisor stopped([] { return ::raise(SIGSTOP), finish(); });
  EXPECT_TRUE(eventually([&] { return stopped.said().find("is stopped") != std::string::npos; }));
  ::kill(stopped.run_id(), SIGCONT);
  EXPECT_EQ(stopped.end(), 0);
}

}  // namespace
}  // namespace tessera::host
