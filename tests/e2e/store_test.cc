// Jobs whose key-value store is reached by others: strangers, and a second job with the same MASTER_PORT.
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <sstream>
#include <thread>

#include "e2e/cli.h"
#include "launch/socket.h"
#include "support/free_port.h"

namespace tessera::testing {
using namespace host;
namespace {

using std::chrono::milliseconds;

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Where the ranks of this launcher meet; waits for the first of them.
uint16_t store_port_of(int launcher) {
  const std::string pid = std::to_string(launcher);
  for (const Deadline deadline = deadline_in(kPatienceMs); remaining_ms(deadline) > 0;) {
    std::istringstream children(contents("/proc/" + pid + "/task/" + pid + "/children"));
    for (std::string child; children >> child;) {
      const std::string environment = contents("/proc/" + child + "/environ");
      const std::string name = "TESSERA_STORE_ADDR=127.0.0.1:";
      const size_t found = environment.find(name);
      if (found != std::string::npos) return static_cast<uint16_t>(std::stoi(environment.substr(found + name.size())));
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  throw std::runtime_error("the launcher started no rank");
}

std::string num_threads_of(int process) {
  const std::string status = contents("/proc/" + std::to_string(process) + "/status");
  const size_t line = status.find("Threads:");
  return status.substr(line, status.find('\n', line) - line);
}

// A thread for each of them, or a descriptor, is what a container's limit would not allow.
TEST(StrangersAtTheStore, DoNotEndAJob) {
  std::vector<std::string> argv = {"bash", "-c", "ulimit -n 80; exec \"$@\"", "bash"};
  for (const std::string& word : train({"--nproc=3", "--steps=300"}))
    argv.push_back(word);
  Command run(argv);
  const uint16_t port = store_port_of(run.pid());
  const std::string num_threads = num_threads_of(run.pid());
  std::vector<Socket> strangers;
  for (int i = 0; i < 300; ++i)
    strangers.push_back(Socket::connect("127.0.0.1", port, deadline_in(kPatienceMs)));
  EXPECT_EQ(num_threads_of(run.pid()), num_threads);
  const CommandResult result = run.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

int free_master_port() {
  return free_port() - 1;  // the port after it is the store's
}

class Rank {
 public:
  Rank(int number, int master_port, const std::string& secret)
      : command_(train({"--steps=20", "--start-timeout-ms=" + std::to_string(kPatienceMs)}),
                 {{"RANK", std::to_string(number)},
                  {"WORLD_SIZE", "2"},
                  {"LOCAL_RANK", std::to_string(number)},
                  {"LOCAL_WORLD_SIZE", "2"},
                  {"MASTER_ADDR", "127.0.0.1"},
                  {"MASTER_PORT", std::to_string(master_port)},
                  {"TESSERA_JOB_SECRET", secret}}) {}

  CommandResult wait() { return command_.wait(); }

 private:
  Command command_;
};

TEST(TwoJobsWithOneMasterPort, WithTheirOwnSecretsTheFirstTrains) {
  const int port = free_master_port();
  Rank a0(0, port, "a");
  Socket::connect("127.0.0.1", static_cast<uint16_t>(port + 1), deadline_in(kPatienceMs));  // it listens
  Rank b0(0, port, "b"), b1(1, port, "b"), a1(1, port, "a");
  for (Rank* rank : {&b0, &b1}) {
    const CommandResult result = rank->wait();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_NE(result.err.find("another secret"), std::string::npos) << result.err;
  }
  for (Rank* rank : {&a0, &a1}) {
    const CommandResult result = rank->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
}

// The jobs can be told apart only by ranks that are claimed twice.
TEST(TwoJobsWithOneMasterPort, WithoutSecretsNobodyWaitsInVain) {
  const int port = free_master_port();
  Rank a0(0, port, ""), b0(0, port, ""), a1(1, port, ""), b1(1, port, "");
  std::multiset<int> that_trained;
  bool is_said = false;
  for (const auto& [rank, number] : {std::pair(&a0, 0), {&b0, 0}, {&a1, 1}, {&b1, 1}}) {
    const CommandResult result = rank->wait();
    if (result.exit_code == 0) that_trained.insert(number);
    is_said = is_said || result.err.find("two jobs share this address") != std::string::npos;
    EXPECT_EQ(result.err.find("timed out"), std::string::npos) << result.err;
  }
  EXPECT_TRUE(is_said);
  EXPECT_TRUE(that_trained.empty() || that_trained == (std::multiset{0, 1})) << that_trained.size();
}

TEST(SeveralHosts, NeedASecretOrSayThatTheyNeedNone) {
  const std::map<std::string, std::string> apart = {{"RANK", "1"},
                                                    {"WORLD_SIZE", "2"},
                                                    {"LOCAL_WORLD_SIZE", "1"},
                                                    {"MASTER_ADDR", "192.0.2.1"},
                                                    {"MASTER_PORT", "9"}};
  const CommandResult refused = run_command(train({"--steps=1"}), apart);
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_NE(refused.err.find("openssl rand -hex 16"), std::string::npos) << refused.err;
  const CommandResult insecure = run_command(train({"--steps=1", "--insecure", "--start-timeout-ms=50"}), apart);
  EXPECT_EQ(insecure.exit_code, 1) << insecure.err;
  EXPECT_NE(insecure.err.find("no server answers at 192.0.2.1"), std::string::npos) << insecure.err;
}

}  // namespace
}  // namespace tessera::testing
