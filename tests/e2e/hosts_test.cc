// Jobs on several hosts (network namespaces), their ranks started with torchrun's variables.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <list>
#include <thread>

#include "e2e/cli.h"
#include "support/hosts.h"
#include "support/processes.h"

namespace tessera::testing {
namespace {

constexpr int64_t kShortMs = 2000;

/// What must be equal in all runs of one job.
std::vector<std::string> bits(const std::string& metrics) {
  std::vector<std::string> lines;
  for (const auto& line : read_metrics(metrics))
    lines.push_back(line.at("loss").dump() + " " + line.at("grad_norm").dump());
  return lines;
}

class HostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string obstacle = Hosts::obstacle();
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
  }

  std::string metrics() const { return folder_.path() + "/metrics.jsonl"; }

  /// One rank a host; rank 0 writes metrics.
  void start(const Hosts& hosts, int num_hosts, std::vector<std::string> flags,
             const std::string& master = Hosts::address(0), bool names_interfaces = false) {
    start(hosts, num_hosts, std::move(flags), std::vector<std::string>(static_cast<size_t>(num_hosts), master),
          names_interfaces);
  }
  /// The same where each host has another name for the first.
  void start(const Hosts& hosts, int num_hosts, std::vector<std::string> flags, const std::vector<std::string>& masters,
             bool names_interfaces = false) {
    flags.insert(flags.end(),
                 {"--strategy=ddp", "--comm=gloo", "--start-timeout-ms=" + std::to_string(start_timeout_ms_),
                  "--timeout-ms=" + std::to_string(timeout_ms_), "--metrics=" + metrics()});
    for (int rank = 0; rank < num_hosts - num_absent_; ++rank) {
      auto own = flags;
      if (names_interfaces) own.push_back("--gloo.interface=" + Hosts::interface(rank));
      ranks_.emplace_back(hosts.on(rank, train(own)),
                          environment_of(rank, num_hosts, masters[static_cast<size_t>(rank)]));
    }
  }

  static std::map<std::string, std::string> environment_of(int rank, int num_hosts, const std::string& master) {
    return {{"RANK", std::to_string(rank)},
            {"WORLD_SIZE", std::to_string(num_hosts)},
            {"LOCAL_RANK", "0"},
            {"LOCAL_WORLD_SIZE", "1"},
            {"MASTER_ADDR", master},
            {"MASTER_PORT", "29500"},  // of namespaces that are this test's alone
            {"TESSERA_JOB_SECRET", "of hosts"},
            {"OPENBLAS_NUM_THREADS", "1"}};
  }

  /// All end well with the numbers of a run on one host.
  void expect_calm_numbers(int num_hosts) {
    for (Command& rank : ranks_) {
      const CommandResult result = rank.wait();
      EXPECT_EQ(result.exit_code, 0) << result.err;
    }
    const auto found = bits(metrics());
    const std::string calm = folder_.path() + "/calm-" + std::to_string(num_hosts) + ".jsonl";
    const CommandResult one_host = run_command(train(
        {"--nproc", std::to_string(num_hosts), "--strategy=ddp", "--comm=gloo", "--steps=3", "--metrics=" + calm}));
    EXPECT_EQ(one_host.exit_code, 0) << one_host.err;
    EXPECT_EQ(found, bits(calm));
    EXPECT_EQ(found.size(), 3u);
  }

  /// Runs `job` with a short --timeout-ms, and if the hosts are too busy for it with longer ones.
  void try_with_short_timeouts(const std::function<void()>& job) {
    with_short_time(kShortMs, [&](int64_t timeout_ms) {
      timeout_ms_ = timeout_ms;
      ranks_.clear();
      std::filesystem::remove(metrics());
      job();
    });
  }

  /// Three ranks, in the middle of a run that is too long to end by itself.
  void start_training(const Hosts& hosts) {
    start(hosts, 3, {"--steps=100000"});
    wait_for_steps(3);
  }

  void wait_for_steps(size_t num_steps) {
    const bool has_stepped = eventually([&] {
      std::ifstream in(metrics());
      size_t num_lines = 0;
      for (std::string line; std::getline(in, line);)
        ++num_lines;
      return num_lines >= num_steps || !is_running(ranks_.front().pid());
    });
    ASSERT_TRUE(has_stepped && is_running(ranks_.front().pid())) << "the job does not step: " << ranks_.front().err();
  }

  /// The ranks that are left end soon, each with an error; somebody names the lost one, as silent or as out of reach.
  void expect_end_naming(int lost) {
    const auto start = std::chrono::steady_clock::now();
    std::string said;
    int rank = 0;
    for (Command& command : ranks_) {
      if (rank++ == lost) continue;
      const CommandResult result = command.wait();
      EXPECT_NE(result.exit_code, 0);
      said += result.err;
    }
    const auto took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took, std::chrono::milliseconds(timeout_ms_ + 1000 + timeout_ms_));
    const std::string name = std::to_string(lost);
    const bool silent = said.find("waiting for rank " + name) != std::string::npos;
    const bool unreachable = said.find("lost the connection to rank " + name) != std::string::npos;
    EXPECT_TRUE(silent || unreachable) << said;
  }

  int64_t start_timeout_ms_ = kNeverMs, timeout_ms_ = kPatienceMs;
  int num_absent_ = 0;  // of the job's last ranks: they do not come

  Command& rank(int index) { return *std::next(ranks_.begin(), index); }

  std::list<Command> ranks_;

 private:
  TempFolder folder_;
};

TEST_F(HostsTest, TwoFindTheirAddressesByTheRouteToTheStore) {
  const Hosts hosts(2);
  start(hosts, 2, {"--steps=3"});
  expect_calm_numbers(2);
}

TEST_F(HostsTest, ThreeMayNameOneInterfaceEach) {
  const Hosts hosts(3);
  start(hosts, 3, {"--steps=3"}, Hosts::address(0), true);
  expect_calm_numbers(3);
}

TEST_F(HostsTest, TheLoopbackInterfaceIsRefusedAtOnce) {
  const Hosts hosts(2);
  start(hosts, 2, {"--steps=3", "--gloo.interface=lo"});
  const CommandResult first = rank(0).wait(), second = rank(1).wait();
  EXPECT_NE(first.exit_code, 0);
  EXPECT_NE(second.exit_code, 0);
  EXPECT_NE((first.err + second.err)
                .find("--gloo.interface: the addresses of \"lo\" can be reached from this machine only, and rank "),
            std::string::npos)
      << first.err << second.err;
}

TEST_F(HostsTest, ANameThatIsLoopbackOnItsOwnHostIsNoObstacle) {
  Hosts hosts(3);
  hosts.set_name(0, "first", "127.0.1.1");  // as Debian writes it
  hosts.set_name(1, "first", Hosts::address(0));
  hosts.set_name(2, "first", Hosts::address(0));
  start(hosts, 3, {"--steps=3"}, "first");
  expect_calm_numbers(3);
}

TEST_F(HostsTest, LostPacketsChangeNoBit) {
  for (const int num_hosts : {2, 3}) {
    SCOPED_TRACE(num_hosts);
    ranks_.clear();
    std::filesystem::remove(metrics());
    const Hosts hosts(num_hosts);
    if (const std::string obstacle = hosts.lose_packets(1); !obstacle.empty()) GTEST_SKIP() << obstacle;
    start(hosts, num_hosts, {"--steps=3"});
    expect_calm_numbers(num_hosts);
  }
}

// No name is known on two hosts, and none is that of a machine.
TEST_F(HostsTest, EachMayKnowTheFirstByANameOfItsOwn) {
  Hosts hosts(3);
  const std::vector<std::string> names = {"myself", "first", "leader.example"};
  for (int host = 0; host < 3; ++host)
    hosts.set_name(host, names[static_cast<size_t>(host)], host == 0 ? "127.0.1.1" : Hosts::address(0));
  start(hosts, 3, {"--steps=3"}, names);
  expect_calm_numbers(3);
}

TEST_F(HostsTest, ANameThatOneHostDoesNotKnowIsSaid) {
  try_with_short_timeouts([this] {
    start_timeout_ms_ = timeout_ms_;
    Hosts hosts(2);
    hosts.set_name(0, "first", Hosts::address(0));
    hosts.set_name(1, "another", Hosts::address(0));
    start(hosts, 2, {"--steps=3"}, "first");
    const CommandResult first = rank(0).wait(), second = rank(1).wait();
    EXPECT_NE(first.exit_code, 0);
    EXPECT_NE(second.exit_code, 0);
    EXPECT_NE(second.err.find("cannot resolve the address first"), std::string::npos) << second.err;
  });
}

// As in a cluster, where a host has a name once it runs.
TEST_F(HostsTest, ANameThatIsKnownLaterIsWaitedFor) {
  Hosts hosts(2);
  hosts.set_name(0, "first", Hosts::address(0));
  hosts.set_name(1, "another", Hosts::address(0));
  start(hosts, 2, {"--steps=3"}, "first");
  std::this_thread::sleep_for(std::chrono::seconds(2));
  hosts.set_name(1, "first", Hosts::address(0));
  expect_calm_numbers(2);
}

TEST_F(HostsTest, OneOfTwoHostsThatIsDownEndsTheJobAtTheTimeout) {
  try_with_short_timeouts([this] {
    const Hosts hosts(2);
    start(hosts, 2, {"--steps=100000"});
    wait_for_steps(3);
    hosts.cut_cable(1);
    expect_end_naming(1);
  });
}

TEST_F(HostsTest, ACutCableEndsTheJobAtTheTimeout) {
  try_with_short_timeouts([this] {
    const Hosts hosts(3);
    start_training(hosts);
    hosts.cut_cable(2);
    expect_end_naming(2);
  });
}

TEST_F(HostsTest, AHostThatVanishesEndsTheJobAtTheTimeout) {
  try_with_short_timeouts([this] {
    const Hosts hosts(3);
    start_training(hosts);
    hosts.cut_cable(1);
    kill(rank(1).pid(), SIGKILL);
    expect_end_naming(1);
  });
}

TEST_F(HostsTest, TheHostOfTheStoreEndsTheJobSoToo) {
  try_with_short_timeouts([this] {
    const Hosts hosts(3);
    start_training(hosts);
    hosts.cut_cable(0);
    expect_end_naming(0);
  });
}

TEST_F(HostsTest, WithoutTheHostOfTheStoreNoRankOutlivesTheTimeOfTheStart) {
  num_absent_ = 1;
  try_with_short_timeouts([this] {
    start_timeout_ms_ = 2 * timeout_ms_;
    const Hosts hosts(2);
    start(hosts, 3, {"--steps=3"});
    ASSERT_TRUE(rank(0).wait_for("rank 0 of 3")) << rank(0).err();
    std::this_thread::sleep_for(std::chrono::milliseconds(timeout_ms_ / 2));  // both have joined, and wait
    hosts.cut_cable(0);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_NE(rank(1).wait().exit_code, 0);
    EXPECT_LT(std::chrono::steady_clock::now() - begin,
              std::chrono::milliseconds(start_timeout_ms_ + 1000 + timeout_ms_));
    EXPECT_NE(rank(0).wait().exit_code, 0);
  });
}

}  // namespace
}  // namespace tessera::testing
