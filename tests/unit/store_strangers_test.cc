// Strangers at the key-value store's door: however many come and whatever they do, the members do not notice.
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/concat.h"
#include "launch/store/wire.h"
#include "support/child_process.h"
#include "support/expect_error.h"
#include "support/store_fixture.h"

namespace tessera::host {
namespace {

using std::chrono::milliseconds;
using testing::ChildProcess;
using testing::is_dropped;
using testing::kPatienceMs;
using testing::num_entries;
using testing::shout;
using testing::TcpStore;

// A connection of the kind number `i`: idle, reset, closed, garbage, half a greeting, a greeting that never goes on, a
// wrong claim.
Socket misbehave(Socket socket, int i) {
  const std::string hello(wire::bytes_of(wire::Hello{wire::kMagic, wire::random_bytes()}));
  const linger reset{1, 0};
  switch (i % 7) {
    case 1:
      ::setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
      return {};
    case 2:
      return {};
    case 3:
      shout(socket, std::string(4096, '\xff'));
      return socket;
    case 4:
      shout(socket, hello.substr(0, 11));
      return socket;
    case 5:
      shout(socket, hello);
      return socket;
    case 6:
      shout(socket, hello + std::string(sizeof(wire::Claim), 'x'));
      return socket;
    default:
      return socket;
  }
}

TEST_F(TcpStore, FewStrangersAreKeptAndMembersStay) {
  const auto client = join();
  std::vector<Socket> strangers;
  for (int i = 0; i < 400; ++i)
    strangers.push_back(stranger());
  client->set("key", "value");
  EXPECT_EQ(join()->get("key", kPatienceMs), "value");
  const auto num_kept =
      std::count_if(strangers.begin(), strangers.end(), [](const Socket& s) { return !is_dropped(s, 0); });
  EXPECT_LE(num_kept, 128);
  EXPECT_EQ(client->get("key", 0), "value");
}

TEST_F(TcpStore, StrangersAreDroppedInTime) {
  const Socket silent = stranger(), slow = stranger(), half = stranger();
  const wire::Hello hello{wire::kMagic, wire::random_bytes()};
  half.write(&hello, sizeof hello, deadline_in(kPatienceMs));
  size_t num_sent = 0;
  do
    shout(slow, std::string(1, wire::bytes_of(hello)[num_sent]));  // a byte now and then does not buy it time
  while (++num_sent < sizeof hello && !is_dropped(slow, kGreetingTimeoutMs / 4));
  EXPECT_LT(num_sent, sizeof hello);
  EXPECT_TRUE(is_dropped(silent, kPatienceMs));
  EXPECT_TRUE(is_dropped(half, kPatienceMs));
}

TEST_F(TcpStore, MembersWorkAndComeInDuringAFlood) {
  const auto client = join();
  // Few enough that this machine keeps free ports on a slow day: each of them takes one for a minute.
  constexpr int kStrangers = 6'000;
  std::atomic<int> num_strangers{0};
  std::vector<std::thread> floods;
  for (int thread = 0; thread < 2; ++thread)
    floods.emplace_back([&] {
      std::vector<Socket> held(150);
      for (int i = 0; num_strangers++ < kStrangers; ++i) {
        held[static_cast<size_t>(i) % held.size()] = {};
        held[static_cast<size_t>(i) % held.size()] = misbehave(stranger(), i);
      }
    });
  EXPECT_TRUE(testing::eventually([&] { return num_strangers >= 500; }));
  const size_t num_threads = num_entries("/proc/self/task");
  for (int round = 0; num_strangers < kStrangers; ++round) {
    EXPECT_LE(num_entries("/proc/self/task"), num_threads);  // fewer when a flood is over
    client->set(concat("key", round), "value");
    EXPECT_EQ(join({round, 1, "here"})->get(concat("key", round), kPatienceMs), "value");
    std::this_thread::sleep_for(milliseconds(1));
  }
  for (std::thread& flood : floods)
    flood.join();
}

// A store in a process that may have few descriptors.
class NarrowStore {
 public:
  NarrowStore() : port_(static_cast<uint16_t>(std::stoi(process_.next_line(kPatienceMs)))) {}

  Socket stranger() const { return Socket::connect("127.0.0.1", port_, deadline_in(kPatienceMs)); }
  std::unique_ptr<TcpStoreClient> join(int rank, int64_t timeout_ms = kPatienceMs) const {
    return std::make_unique<TcpStoreClient>("127.0.0.1", port_, "secret", this_process(rank), timeout_ms);
  }
  // Of all its threads, so far.
  double cpu_seconds() const {
    std::ifstream file(concat("/proc/", process_.id(), "/stat"));
    std::string field;
    double ticks = 0;
    for (int i = 1; i <= 15 && file >> field; ++i)
      if (i >= 14) ticks += std::stod(field);
    return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }

 private:
  static void run(const ChildProcess::Say& say) {
    const rlimit few{64, 64};
    ::setrlimit(RLIMIT_NOFILE, &few);
    const TcpStoreServer server("127.0.0.1", 0, "secret");
    say(concat(server.port()));
    ::pause();
  }

  ChildProcess process_{run};
  uint16_t port_;
};

TEST(StoreWithFewDescriptors, StrangersDoNotTakeThemAll) {
  const NarrowStore store;
  std::vector<Socket> strangers;
  for (int i = 0; i < 200; ++i)
    strangers.push_back(store.stranger());
  std::vector<std::unique_ptr<TcpStoreClient>> members;
  for (int rank = 0; rank < 20; ++rank) {
    members.push_back(store.join(rank));
    strangers.push_back(store.stranger());
    members.back()->set(concat(rank), "here");
  }
  for (const auto& member : members)
    EXPECT_EQ(member->get("19", kPatienceMs), "here");
}

// All are members': those serve on, nothing spins, and there is room again when one leaves.
TEST(StoreWithFewDescriptors, ServesThoseWhoAreInWhenNoneIsLeft) {
  const NarrowStore store;
  std::vector<std::unique_ptr<TcpStoreClient>> members;
  try {
    for (int rank = 0; rank < 64; ++rank)
      members.push_back(store.join(rank, rank < 40 ? kPatienceMs : 700));
    FAIL() << "64 descriptors were enough for 64 connections";
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == TSR_E_UNAVAILABLE || error.code() == TSR_E_DEADLINE)
        << error.what();  // dropped, or not
  }
  const Socket waiting = store.stranger();
  const double before = store.cpu_seconds();
  std::this_thread::sleep_for(milliseconds(600));
  EXPECT_LT(store.cpu_seconds() - before, 0.3);
  for (const auto& member : members)
    member->add("n", 1);
  members.resize(members.size() - 5);
  EXPECT_EQ(store.join(64)->add("n", 0), static_cast<int64_t>(members.size()) + 5);
}

}  // namespace
}  // namespace tessera::host
