// gloo-comm between processes: what only death, a stop or a limit of the system can show.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <list>
#include <sstream>
#include <thread>

#include "support/child_process.h"
#include "support/comm_harness.h"
#include "support/file_kv.h"
#include "support/strangers.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

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
  explicit Processes(std::string plugin = "gloo-comm") : plugin_(std::move(plugin)) {}

  void start(int rank, int num_ranks, int64_t timeout_ms, const Body& body) {
    ranks_.emplace_back([&, this](const ChildProcess::Say& say) {
      FileKv store(folder_.path());
      CommRank self({plugin_, num_ranks, "dp.test", timeout_ms}, rank, store.host());
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
  const std::string plugin_;
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
  rank.synchronize(0, kNeverMs);
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

// More than the system takes from the root for a rank that does not read.
TEST(GlooProcess, ASendThatAStoppedRankDoesNotReadIsLateInTime) {
  with_short_time(800, [](int64_t timeout_ms) {
    Processes processes("gloo-comm:direct=off");
    for (int rank = 0; rank < 2; ++rank)
      processes.start(rank, 2, kPatienceMs, repeat({"", TSR_COLL_BROADCAST, 1 << 24}, timeout_ms));
    for (size_t i = 0; i < 2; ++i)
      ASSERT_EQ(processes.rank(i).next_line(kPatienceMs), "ready");
    const auto start = std::chrono::steady_clock::now();
    processes.rank(1).signal(SIGSTOP);
    const Report report = parse(processes.rank(0).next_line(kPatienceMs));
    EXPECT_LT(ms_since(start), timeout_ms + 5'000);
    EXPECT_EQ(report.code, TSR_E_DEADLINE) << report.line;
    EXPECT_EQ(report.rank, 1) << report.line;
  });
}

class Killed : public ::testing::TestWithParam<Work> {};

TEST_P(Killed, SurvivorsFailBeforeTheirDeadlineAndNameTheRank) {
  Processes processes;
  processes.start_all(kNeverMs, repeat(GetParam(), kNeverMs));
  for (size_t i = 0; i < kNumRanks; ++i)
    ASSERT_EQ(processes.rank(i).next_line(kPatienceMs), "ready");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  processes.rank(kVictim).signal(SIGKILL);
  for (size_t i = 0; i < kVictim; ++i) {
    const Report report = parse(processes.rank(i).next_line(kPatienceMs));
    EXPECT_EQ(report.code, TSR_E_UNAVAILABLE) << report.line;
    EXPECT_EQ(report.rank, kVictim) << report.line;
    EXPECT_NE(report.line.find("lost the connection to rank 2"), std::string::npos) << report.line;
    EXPECT_NE(report.line.find("gradient h.2"), std::string::npos) << report.line;
  }
}

class Stopped : public ::testing::TestWithParam<Work> {};

TEST_P(Stopped, SurvivorsFailAtTheDeadlineAndNameTheRank) {
  with_short_time(800, [](int64_t timeout_ms) {
    Processes processes;
    processes.start_all(kPatienceMs, repeat(GetParam(), timeout_ms));
    for (size_t i = 0; i < kNumRanks; ++i)
      ASSERT_EQ(processes.rank(i).next_line(kPatienceMs), "ready");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const auto start = std::chrono::steady_clock::now();
    processes.rank(kVictim).signal(SIGSTOP);
    for (size_t i = 0; i < kVictim; ++i) {
      const Report report = parse(processes.rank(i).next_line(kPatienceMs));
      EXPECT_GT(ms_since(start), timeout_ms / 2);
      EXPECT_EQ(report.code, TSR_E_DEADLINE) << report.line;
      EXPECT_EQ(report.rank, kVictim) << report.line;
      EXPECT_NE(report.line.find(std::to_string(timeout_ms) + " ms waiting for rank 2"), std::string::npos)
          << report.line;
    }
  });
}

/// Receives a number from a rank, until that is late.
void receive_from(CommRank& rank, int peer, int64_t timeout_ms) {
  float number = 0;
  auto collective = make_collective(TSR_COLL_RECV, TSR_F32, 1, nullptr, &number);
  collective.peer = peer;
  collective.timeout_ms = timeout_ms;
  rank.comm().submit(collective);
  rank.synchronize(0, kNeverMs);
}

// Its own time is over a little earlier than that of the rank that it waits for.
TEST(GlooProcess, WhoWaitsForARankThatWaitsForALateOneNamesTheLateOne) {
  with_short_time(800, [](int64_t timeout_ms) {
    Processes processes;
    processes.start_all(kPatienceMs, [timeout_ms](CommRank& rank, const ChildProcess::Say&) {
      rank.comm();
      if (rank.rank() == kVictim) std::this_thread::sleep_for(std::chrono::milliseconds(4 * timeout_ms));
      if (rank.rank() < kVictim) receive_from(rank, rank.rank() + 1, timeout_ms - (rank.rank() == 0 ? 50 : 0));
    });
    for (size_t i = 0; i < kVictim; ++i) {
      const Report report = parse(processes.rank(i).next_line(kPatienceMs));
      EXPECT_EQ(report.code, TSR_E_DEADLINE) << report.line;
      EXPECT_EQ(report.rank, kVictim) << report.line;
    }
  });
}

TEST(GlooProcess, TwoThatWaitForOneAnotherNameOneAnother) {
  with_short_time(800, [](int64_t timeout_ms) {
    Processes processes;
    processes.start_all(kPatienceMs, [timeout_ms](CommRank& rank, const ChildProcess::Say&) {
      rank.comm();
      if (rank.rank() == kVictim) std::this_thread::sleep_for(std::chrono::milliseconds(4 * timeout_ms));
      if (rank.rank() < kVictim) receive_from(rank, 1 - rank.rank(), timeout_ms);
    });
    for (size_t i = 0; i < kVictim; ++i) {
      const Report report = parse(processes.rank(i).next_line(kPatienceMs));
      EXPECT_EQ(report.code, TSR_E_DEADLINE) << report.line;
      EXPECT_EQ(report.rank, static_cast<int>(1 - i)) << report.line;
    }
  });
}

// Communicators that are aborted at once hang up at once: each knows nothing of the rank that another one missed.
TEST(GlooProcess, AStoppedRankDelaysTheEndOnceNotOnceACommunicator) {
  with_short_time(800, [](int64_t timeout_ms) {
    constexpr int kIdle = 12, kEndMs = 100;  // one hang-up's time
    Processes processes;
    processes.start_all(kPatienceMs, [timeout_ms](CommRank& rank, const ChildProcess::Say& say) {
      std::list<std::unique_ptr<Comm>> idle;
      for (int i = 0; i < kIdle; ++i)
        idle.push_back(rank.create("idle." + std::to_string(i)));
      std::vector<float> data(40);
      run_once(rank, {"", TSR_COLL_ALL_REDUCE, 40}, data);
      say("ready");
      try {
        for (;;)
          run_once(rank, {"", TSR_COLL_ALL_REDUCE, 40}, data, timeout_ms);
      } catch (const Error&) {
        const auto start = std::chrono::steady_clock::now();
        rank.comm().abort();
        for (const auto& comm : idle)
          comm->abort();
        idle.clear();
        say(std::to_string(ms_since(start)));
      }
    });
    for (size_t i = 0; i < kNumRanks; ++i)
      ASSERT_EQ(processes.rank(i).next_line(kPatienceMs), "ready");
    processes.rank(kVictim).signal(SIGSTOP);
    for (size_t i = 0; i < kVictim; ++i)
      EXPECT_LT(std::stoi("0" + processes.rank(i).next_line(kPatienceMs)), kIdle * kEndMs * 3 / 4);
  });
}

// A rank that is there, but whose memory cannot be read, has not left.
TEST(GlooProcess, WhoeverIsLostWithoutAFarewellIsNotSaidToHaveLeft) {
  constexpr uint64_t kNumElements = 1 << 20;
  Processes processes;
  processes.start_all(kPatienceMs, [](CommRank& rank, const ChildProcess::Say& say) {
    auto* const data = static_cast<float*>(
        ::mmap(nullptr, kNumElements * sizeof(float), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    auto broadcast = make_collective(TSR_COLL_BROADCAST, TSR_F32, kNumElements, data, data);
    broadcast.peer = kVictim;
    rank.comm();
    if (rank.rank() == kVictim) ::mprotect(data + kNumElements / 2, kNumElements, PROT_NONE);  // its ends can be read
    rank.comm().submit(broadcast);
    rank.synchronize(0, kNeverMs);
    say("connections");  // this system lets no process read another
  });
  for (size_t i = 0; i < kVictim; ++i) {
    const std::string line = processes.rank(i).next_line(kPatienceMs);
    if (line == "connections") GTEST_SKIP() << "needs process_vm_readv between ranks, which this system refuses";
    EXPECT_EQ(parse(line).code, TSR_E_UNAVAILABLE) << line;
    EXPECT_NE(line.find("rank 2: its process died or its host cannot be reached"), std::string::npos) << line;
    EXPECT_EQ(line.find("destroyed"), std::string::npos) << line;
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
  processes.start_all(kNeverMs, [](CommRank& rank, const ChildProcess::Say& say) {
    const Work work{"", TSR_COLL_ALL_REDUCE, 40};
    std::vector<float> data(work.num_elements);
    run_once(rank, work, data);
    say("ready");
    if (rank.rank() != 0) ::pause();
    run_once(rank, work, data, kNeverMs);
  });
  for (size_t i = 0; i < kNumRanks; ++i)
    ASSERT_EQ(processes.rank(i).next_line(kPatienceMs), "ready");
  processes.rank(kVictim).signal(SIGKILL);
  const Report report = parse(processes.rank(0).next_line(kPatienceMs));
  EXPECT_EQ(report.code, TSR_E_UNAVAILABLE) << report.line;
  EXPECT_EQ(report.rank, kVictim) << report.line;
}

std::vector<Listener> wait_for_listeners(pid_t process) {
  std::vector<Listener> listeners;
  eventually([&] { return !(listeners = listeners_of(process)).empty(); });
  return listeners;
}

const Processes::Body kBarrier = [](CommRank& rank, const ChildProcess::Say& say) {
  rank.comm().submit(make_collective(TSR_COLL_BARRIER, 0, 0, nullptr, nullptr));
  rank.synchronize();
  say("done");
};

TEST(GlooProcess, LocalRanksListenOnLoopbackOnly) {
  Processes processes;
  processes.start(0, 2, kPatienceMs, kBarrier);  // waits for rank 1
  const auto listeners = wait_for_listeners(processes.rank(0).id());
  ASSERT_FALSE(listeners.empty());
  for (const Listener& listener : listeners)
    EXPECT_EQ(listener.address, "0100007F");
  processes.start(1, 2, kPatienceMs, kBarrier);
  EXPECT_EQ(processes.rank(0).next_line(kPatienceMs), "done");
  EXPECT_EQ(processes.rank(1).next_line(kPatienceMs), "done");
}

TEST(GlooProcess, ARankThatDiesWhileTheGroupComesTogetherIsNamedAtOnce) {
  Processes processes;
  processes.start(0, 3, kNeverMs, kBarrier);
  processes.start(2, 3, kNeverMs, kBarrier);  // rank 1 does not come
  ASSERT_FALSE(wait_for_listeners(processes.rank(0).id()).empty());
  ASSERT_FALSE(wait_for_listeners(processes.rank(1).id()).empty());
  processes.rank(1).signal(SIGKILL);
  const Report report = parse(processes.rank(0).next_line(kPatienceMs));
  EXPECT_EQ(report.code, TSR_E_UNAVAILABLE) << report.line;
  EXPECT_EQ(report.rank, 2) << report.line;
  EXPECT_NE(report.line.find("rank 2"), std::string::npos) << report.line;
}

TEST(GlooProcess, ARankThatStopsWhileTheGroupComesTogetherIsNamedByAll) {
  with_short_time(1500, [](int64_t timeout_ms) {
    Processes processes;
    processes.start(2, 3, timeout_ms, kBarrier);
    ASSERT_FALSE(wait_for_listeners(processes.rank(0).id()).empty());  // so the others are told where it listens
    processes.rank(0).signal(SIGSTOP);
    processes.start(0, 3, timeout_ms, kBarrier);
    processes.start(1, 3, timeout_ms, kBarrier);
    for (const size_t started : {1, 2}) {
      const Report report = parse(processes.rank(started).next_line(kPatienceMs));
      EXPECT_EQ(report.code, TSR_E_DEADLINE) << report.line;
      EXPECT_EQ(report.rank, 2) << report.line;
      EXPECT_NE(report.line.find("waiting for rank 2"), std::string::npos) << report.line;
    }
  });
}

TEST(GlooProcess, StrangersTakeNoDescriptorThatMembersNeed) {
  Processes processes;
  const auto few_files = [](CommRank& rank, const ChildProcess::Say& say) {
    const rlimit limit{24, 24};
    setrlimit(RLIMIT_NOFILE, &limit);
    kBarrier(rank, say);
  };
  processes.start(0, 2, kPatienceMs, few_files);
  const auto listeners = wait_for_listeners(processes.rank(0).id());
  ASSERT_EQ(listeners.size(), 1u);
  std::vector<int> strangers;
  for (int i = 0; i < 100; ++i)
    strangers.push_back(connect_to(listeners.front().port));
  processes.start(1, 2, kPatienceMs, kBarrier);
  EXPECT_EQ(processes.rank(0).next_line(kPatienceMs), "done");
  EXPECT_EQ(processes.rank(1).next_line(kPatienceMs), "done");
  for (const int socket : strangers)
    ::close(socket);
}

TEST(GlooProcess, AGroupComesTogetherWithTheFewestDescriptors) {
  constexpr int kRanks = 4;
  Processes processes;
  for (int rank = 0; rank < kRanks; ++rank) {
    processes.start(rank, kRanks, kPatienceMs, [](CommRank& self, const ChildProcess::Say& say) {
      const int first_free = ::dup(0);
      ::close(first_free);
      const auto most =
          static_cast<rlim_t>(first_free + kRanks - 1 + 3 + 1);  // what create asks for; and the test's store
      const rlimit limit{most, most};
      setrlimit(RLIMIT_NOFILE, &limit);
      kBarrier(self, say);
    });
  }
  for (size_t rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(processes.rank(rank).next_line(kPatienceMs), "done");
}

TEST(GlooProcess, TooFewDescriptorsAreOneSentenceThatSaysHowManyAreNeeded) {
  Processes processes;
  processes.start(0, 16, kPatienceMs, [](CommRank& rank, const ChildProcess::Say& say) {
    const rlimit limit{15, 15};
    setrlimit(RLIMIT_NOFILE, &limit);
    kBarrier(rank, say);
  });
  const Report report = parse(processes.rank(0).next_line(kPatienceMs));
  EXPECT_EQ(report.code, TSR_E_RESOURCE_EXHAUSTED) << report.line;
  EXPECT_NE(report.line.find("may have 15 files open and needs at least 2"), std::string::npos) << report.line;
  EXPECT_NE(report.line.find("raise the limit with ulimit -n"), std::string::npos) << report.line;
  EXPECT_EQ(report.line.find("gloo/transport"), std::string::npos) << report.line;
}

}  // namespace
}  // namespace tessera::testing
