// gloo-comm between processes: what only death, a stop or a foreign connection can show.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <list>
#include <sstream>
#include <thread>

#include "support/child_process.h"
#include "support/comm_harness.h"
#include "support/file_kv.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

constexpr int64_t kLongMs = 30000;
constexpr int kNumRanks = 3;
constexpr int kVictim = 2;

int64_t ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count();
}

/// What a rank says about an error, and what the parent reads of it.
std::string error_line(const Error& error) {
  return "error " + std::to_string(error.code()) + " " + std::to_string(error.rank()) + " " + error.what();
}

struct Report {
  std::string line;
  int code = 0, rank = -1;
};

Report parse(const std::string& line) {
  Report report{line};
  std::istringstream in(line);
  std::string word;
  in >> word;
  if (word == "error") in >> report.code >> report.rank;
  return report;
}

/// One group of ranks as processes.
class Processes {
 public:
  using Body = std::function<void(CommRank& rank, const ChildProcess::Say& say)>;

  void start(int rank, int num_ranks, int64_t timeout_ms, const Body& body) {
    ranks_.emplace_back([&, this](const ChildProcess::Say& say) {
      FileKv store(folder_.path());
      CommRank self({"gloo-comm", num_ranks, "dp.test", timeout_ms}, rank, store.host());
      try {
        body(self, say);
      } catch (const Error& error) {
        say(error_line(error));
      }
    });
  }
  void start_all(int64_t timeout_ms, const Body& body) {
    for (int rank = 0; rank < kNumRanks; ++rank)
      start(rank, kNumRanks, timeout_ms, body);
  }
  ChildProcess& rank(size_t index) { return *std::next(ranks_.begin(), static_cast<ptrdiff_t>(index)); }

 private:
  TempFolder folder_;
  std::list<ChildProcess> ranks_;
};

struct Work {
  const char* name;
  uint32_t kind;
  uint64_t num_elements;
};

void PrintTo(const Work& work, std::ostream* out) {
  *out << work.name;
}

/// Submits one collective and waits for it.
void run_once(CommRank& rank, const Work& work, std::vector<float>& data, int64_t timeout_ms = 0) {
  auto collective = make_collective(work.kind, TSR_F32, work.num_elements, data.data(), data.data());
  collective.reduce = TSR_REDUCE_SUM;
  collective.timeout_ms = timeout_ms;
  rank.comm().submit(collective);
  rank.synchronize(0, 2 * kLongMs);
}

Processes::Body repeat(const Work& work, int64_t timeout_ms) {
  return [work, timeout_ms](CommRank& rank, const ChildProcess::Say& say) {
    std::vector<float> data(work.num_elements);
    run_once(rank, work, data);
    say("ready");
    for (;;)
      run_once(rank, work, data, timeout_ms);
  };
}

class Killed : public ::testing::TestWithParam<Work> {};

TEST_P(Killed, SurvivorsFailWithinTwoSecondsAndNameTheRank) {
  Processes processes;
  processes.start_all(kLongMs, repeat(GetParam(), kLongMs));
  for (size_t i = 0; i < kNumRanks; ++i)
    ASSERT_EQ(processes.rank(i).next_line(kLongMs), "ready");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  processes.rank(kVictim).signal(SIGKILL);
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < kVictim; ++i) {
    const Report report = parse(processes.rank(i).next_line(kLongMs));
    EXPECT_LT(ms_since(start), 2000);
    EXPECT_EQ(report.code, TSR_E_UNAVAILABLE) << report.line;
    EXPECT_EQ(report.rank, kVictim) << report.line;
    EXPECT_NE(report.line.find("lost the connection to rank 2"), std::string::npos) << report.line;
    EXPECT_NE(report.line.find("gradient h.2"), std::string::npos) << report.line;
  }
}

class Stopped : public ::testing::TestWithParam<Work> {};

TEST_P(Stopped, SurvivorsFailAtTheDeadlineAndNameTheRank) {
  constexpr int64_t kTimeoutMs = 800;
  Processes processes;
  processes.start_all(kLongMs, repeat(GetParam(), kTimeoutMs));
  for (size_t i = 0; i < kNumRanks; ++i)
    ASSERT_EQ(processes.rank(i).next_line(kLongMs), "ready");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  processes.rank(kVictim).signal(SIGSTOP);
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < kVictim; ++i) {
    const Report report = parse(processes.rank(i).next_line(kLongMs));
    EXPECT_GT(ms_since(start), kTimeoutMs / 2);
    EXPECT_LT(ms_since(start), kTimeoutMs + 1000);
    EXPECT_EQ(report.code, TSR_E_DEADLINE) << report.line;
    EXPECT_EQ(report.rank, kVictim) << report.line;
    EXPECT_NE(report.line.find("800 ms waiting for rank 2"), std::string::npos) << report.line;
  }
}

constexpr Work kWork[] = {{"SmallAllReduce", TSR_COLL_ALL_REDUCE, 40},
                          {"LargeAllReduce", TSR_COLL_ALL_REDUCE, 1 << 22},
                          {"LargeBroadcast", TSR_COLL_BROADCAST, 1 << 22}};
const auto kWorkName = [](const ::testing::TestParamInfo<Work>& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(All, Killed, ::testing::ValuesIn(kWork), kWorkName);
INSTANTIATE_TEST_SUITE_P(All, Stopped, ::testing::Values(kWork[0], kWork[1]), kWorkName);

TEST(GlooProcess, ADeathIsSeenWhileTheOthersAreNotAtWork) {
  Processes processes;
  processes.start_all(kLongMs, [](CommRank& rank, const ChildProcess::Say& say) {
    const Work work{"", TSR_COLL_ALL_REDUCE, 40};
    std::vector<float> data(work.num_elements);
    run_once(rank, work, data);
    say("ready");
    if (rank.rank() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(kLongMs));
    run_once(rank, work, data, kLongMs);
  });
  for (size_t i = 0; i < kNumRanks; ++i)
    ASSERT_EQ(processes.rank(i).next_line(kLongMs), "ready");
  processes.rank(kVictim).signal(SIGKILL);
  const auto start = std::chrono::steady_clock::now();
  const Report report = parse(processes.rank(0).next_line(kLongMs));
  EXPECT_LT(ms_since(start), 2000);
  EXPECT_EQ(report.code, TSR_E_UNAVAILABLE) << report.line;
  EXPECT_EQ(report.rank, kVictim) << report.line;
}

struct Listener {
  std::string address;  // as /proc/net/tcp has it
  uint16_t port;
};

/// The TCP sockets on which a process listens.
std::vector<Listener> listeners_of(pid_t process) {
  std::vector<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry, gone).string();
    if (target.rfind("socket:[", 0) == 0) inodes.push_back(target.substr(8, target.size() - 9));
  }
  std::vector<Listener> listeners;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(table);
    for (std::string line; std::getline(in, line);) {
      std::istringstream fields(line);
      std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
      fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
      if (state != "0A" || std::find(inodes.begin(), inodes.end(), inode) == inodes.end()) continue;
      const size_t colon = local.find(':');
      listeners.push_back(
          {local.substr(0, colon), static_cast<uint16_t>(std::stoul(local.substr(colon + 1), nullptr, 16))});
    }
  }
  return listeners;
}

std::vector<Listener> wait_for_listeners(pid_t process) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const auto listeners = listeners_of(process);
    if (!listeners.empty()) return listeners;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

const Processes::Body kBarrier = [](CommRank& rank, const ChildProcess::Say& say) {
  rank.comm().submit(make_collective(TSR_COLL_BARRIER, 0, 0, nullptr, nullptr));
  rank.synchronize();
  say("done");
};

TEST(GlooProcess, LocalRanksListenOnLoopbackOnly) {
  Processes processes;
  processes.start(0, 2, kLongMs, kBarrier);  // waits for rank 1
  const auto listeners = wait_for_listeners(processes.rank(0).id());
  ASSERT_FALSE(listeners.empty());
  for (const Listener& listener : listeners)
    EXPECT_EQ(listener.address, "0100007F");
  processes.start(1, 2, kLongMs, kBarrier);
  EXPECT_EQ(processes.rank(0).next_line(kLongMs), "done");
  EXPECT_EQ(processes.rank(1).next_line(kLongMs), "done");
}

/// A connection that is nobody's, and talks.
class Stranger {
 public:
  explicit Stranger(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const std::string_view text = "GET /index.html HTTP/1.1\r\nHost: a.server.that.is.none\r\nAccept: */*\r\n\r\n";
    is_connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                    ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) > 0;
  }
  ~Stranger() { ::close(socket_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  bool is_connected() const { return is_connected_; }

 private:
  int socket_;
  bool is_connected_;
};

// Which side of a pair connects depends on the ports: half of the time the stranger does no harm.
TEST(GlooProcess, AForeignConnectionEndsInAnErrorOrNotAtAll) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    Processes processes;
    processes.start(0, 2, 1000, kBarrier);
    const auto listeners = wait_for_listeners(processes.rank(0).id());
    ASSERT_EQ(listeners.size(), 1u);
    const Stranger stranger(listeners.front().port);
    ASSERT_TRUE(stranger.is_connected());
    processes.start(1, 2, 1000, kBarrier);
    for (int rank : {0, 1}) {
      const Report report = parse(processes.rank(static_cast<size_t>(rank)).next_line(5000));
      if (report.line == "done") continue;
      EXPECT_TRUE(report.code == TSR_E_UNAVAILABLE || report.code == TSR_E_DEADLINE) << report.line;
      EXPECT_EQ(report.rank, 1 - rank) << report.line;
      EXPECT_NE(report.line.find("create"), std::string::npos) << report.line;
    }
  }
}

}  // namespace
}  // namespace tessera::testing
