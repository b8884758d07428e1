// The members of a job's key-value store: ranks that are claimed twice, and processes that are lost.
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/concat.h"
#include "support/child_process.h"
#include "support/expect_error.h"
#include "support/store_fixture.h"

namespace tessera::host {
namespace {

using testing::ChildProcess;
using testing::expect_error;
using testing::kPatienceMs;
using testing::TcpStore;

const Participant kFirst = {1, 733, "hostA"};
const Participant kSecond = {1, 741, "hostB"};

void expect_refused(const std::function<void()>& join) {
  try {
    join();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), TSR_E_ALREADY_EXISTS);
    for (const char* part : {"rank 1", "process 733 on hostA", "process 741 on hostB", "two jobs", "MASTER_PORT"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << ": " << error.what();
  }
}

// And goes on for a moment, for those who come late.
TEST_F(TcpStore, BeforeTheJobStartsARankClaimedTwiceEndsItForAll) {
  const auto end_it = [this](int64_t) {
    server_ = std::make_unique<TcpStoreServer>("127.0.0.1", 0, secret_);
    auto first = join(kFirst), other = join({0, 1, "hostA"});
    std::thread waiting([&] {
      expect_error([&] { other->get("never", kPatienceMs); },
                   {"rank 1", "process 733 on hostA", "process 741 on hostB"});
    });
    expect_refused([&] { join(kSecond); });
    waiting.join();
    expect_error([&] { first->get("never", kPatienceMs); }, {"two jobs"});
    first.reset();
    other.reset();
    const uint16_t port = server_->port();
    std::thread owner([&] {
      const auto start = std::chrono::steady_clock::now();
      server_.reset();
      EXPECT_LT(std::chrono::steady_clock::now() - start, testing::kPatience);
    });
    expect_error(
        [&] {
          TcpStoreClient("127.0.0.1", port, secret_, {2, 9, "hostB"}, 5'000).get("never", kPatienceMs);
        },
        {"two jobs"});
    owner.join();
  };
  testing::with_short_time(0, end_it);  // on a busy machine the moment may be over
}

TEST_F(TcpStore, AfterTheJobHasStartedOnlyTheNewcomerIsRefused) {
  const auto first = join(kFirst);
  first->set(kJobStarted, "");
  expect_refused([&] { join(kSecond); });
  std::thread setter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    server_->store().set("late", "value");
  });
  EXPECT_EQ(first->get("late", kPatienceMs), "value");
  setter.join();
}

// Also when the first has left.
TEST_F(TcpStore, ARankThatLeftIsNotGivenAway) {
  server_->store().set(kJobStarted, "");
  join(kFirst).reset();
  expect_refused([&] { join(kSecond); });
}

TEST_F(TcpStore, OneProcessMayJoinAgainAndWatchersAreMany) {
  join(kFirst).reset();
  const auto again = join(kFirst), beside = join(kFirst);
  const auto watcher = join({-1, 5, "x"}), another = join({-1, 6, "y"});
  again->set("key", "value");
  for (KeyValueStore* client : {beside.get(), watcher.get(), another.get()})
    EXPECT_EQ(client->get("key", 0), "value");
}

// In a process of its own, since those of its members are forked later.
class StoreProcess {
 public:
  StoreProcess() : port_(static_cast<uint16_t>(std::stoi(process_.next_line(kPatienceMs)))) {}

  void join(int rank) const {
    TcpStoreClient("127.0.0.1", port_, "secret", this_process(rank), kPatienceMs).set("k", "v");
  }
  // A process that joins, with several connections, and stays.
  std::unique_ptr<ChildProcess> member(int rank) const {
    auto child = std::make_unique<ChildProcess>([&](const ChildProcess::Say& say) {
      TcpStoreClient client("127.0.0.1", port_, "secret", this_process(rank), kPatienceMs);
      std::thread other([&] { client.get("never", testing::kNeverMs); });
      client.set("k", "v");
      say("joined");
      other.join();
    });
    EXPECT_EQ(child->next_line(kPatienceMs), "joined");
    return child;
  }
  std::string next_line() { return process_.next_line(kPatienceMs); }

 private:
  static void run(const ChildProcess::Say& say) {
    const StoreEvents events{
        [&](MemoryStore&, const Participant& who) { say(concat("lost ", who.rank, " ", who.pid)); }};
    const TcpStoreServer server("127.0.0.1", 0, "secret", events);
    say(concat(server.port()));
    ::pause();
  }

  ChildProcess process_{run};
  uint16_t port_;
};

TEST(StoreEvents, TellWhichRanksProcessDied) {
  StoreProcess store;
  store.join(1);   // says goodbye
  store.join(-1);  // is not a rank
  auto second = store.member(2), third = store.member(3), watcher = store.member(-1);
  watcher->signal(SIGKILL);
  third->signal(SIGKILL);
  EXPECT_EQ(store.next_line(), concat("lost 3 ", third->id()));
  second->signal(SIGKILL);
  EXPECT_EQ(store.next_line(), concat("lost 2 ", second->id()));
}

}  // namespace
}  // namespace tessera::host
