#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <limits>
#include <memory>
#include <thread>

#include "base/concat.h"
#include "launch/job_watch.h"
#include "launch/store/join.h"
#include "launch/store/wire.h"
#include "launch/tcp_store.h"
#include "support/child_process.h"
#include "support/expect_error.h"
#include "support/store_fixture.h"

namespace tessera::host {
namespace {

using testing::expect_error;
using testing::kPatienceMs;
using testing::TcpStore;

// Both stores must behave alike.
struct Store {
  std::unique_ptr<TcpStoreServer> server;
  std::unique_ptr<KeyValueStore> client;
};

Store make_store(bool over_tcp) {
  if (!over_tcp) return {nullptr, std::make_unique<MemoryStore>()};
  const std::string secret = random_secret();
  auto server = std::make_unique<TcpStoreServer>("127.0.0.1", 0, secret);
  auto client = std::make_unique<TcpStoreClient>("127.0.0.1", server->port(), secret, Participant{}, kPatienceMs);
  return {std::move(server), std::move(client)};
}

class AnyStore : public ::testing::TestWithParam<bool> {
 protected:
  Store store_ = make_store(GetParam());
  KeyValueStore& client_ = *store_.client;
};

TEST_P(AnyStore, KeepsValuesAndReplacesThem) {
  client_.set("key", "first");
  EXPECT_EQ(client_.get("key", 0), "first");
  client_.set("key", std::string("with\0zero", 9));
  EXPECT_EQ(client_.get("key", 0), std::string("with\0zero", 9));
  client_.set("empty", "");
  EXPECT_EQ(client_.get("empty", 0), "");
}

TEST_P(AnyStore, CountsFromZeroApartFromValues) {
  EXPECT_EQ(client_.add("n", 3), 3);
  EXPECT_EQ(client_.add("n", -5), -2);
  expect_error([&] { client_.get("n", 0); }, {"'n'"});
}

TEST_P(AnyStore, GetWaitsForTheKey) {
  for (const int64_t timeout_ms : {kPatienceMs, std::numeric_limits<int64_t>::max()}) {
    const std::string key = concat("late ", timeout_ms);
    std::thread setter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      client_.set(key, "value");
    });
    EXPECT_EQ(client_.get(key, timeout_ms), "value");
    setter.join();
  }
}

TEST_P(AnyStore, GetEndsAtItsDeadline) {
  const auto start = std::chrono::steady_clock::now();
  try {
    client_.get("never", 150);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), TSR_E_DEADLINE);
    EXPECT_NE(std::string(error.what()).find("'never'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("150 ms"), std::string::npos);
  }
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, std::chrono::milliseconds(150));
  EXPECT_LT(took, testing::kPatience);
  client_.set("after", "x");  // the store goes on
  EXPECT_EQ(client_.get("after", 0), "x");
}

TEST_P(AnyStore, RefusesKeysAndValuesThatAreTooLong) {
  expect_error([&] { client_.set("", "x"); }, {"0 bytes"});
  expect_error([&] { client_.add(std::string(kMaxKeyBytes + 1, 'k'), 1); }, {"8193 bytes", "8192"});
  expect_error([&] { client_.set("big", std::string(kMaxValueBytes + 1, 'v')); }, {"'big'", "8388609"});
  const std::string largest(kMaxValueBytes, 'v');
  const std::string longest(kMaxKeyBytes, 'k');
  client_.set(longest, largest);
  EXPECT_EQ(client_.get(longest, 0), largest);
}

TEST_P(AnyStore, ASumThatDoesNotFitIsRefused) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(client_.add("n", kMost), kMost);
  expect_error([&] { client_.add("n", 1); }, {"'n'", "adding 1", "64-bit"});
  EXPECT_EQ(client_.add("n", -1), kMost - 1);
  client_.add("m", -kMost);
  expect_error([&] { client_.add("m", -2); }, {"'m'", "adding -2"});
}

void expect_aborted(KeyValueStore& store, const std::string& reason) {
  try {
    store.get("never", testing::kNeverMs);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), TSR_E_ABORTED);
    EXPECT_EQ(std::string(error.what()), reason);
  }
}

TEST_P(AnyStore, CloseEndsThoseWhoWaitAndKeepsWhatIsThere) {
  client_.set("there", "value");
  std::vector<std::thread> waiting;
  for (int i = 0; i < 3; ++i)
    waiting.emplace_back([&] { expect_aborted(client_, "rank 1 failed"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  client_.close("rank 1 failed");
  for (std::thread& thread : waiting)
    thread.join();
  client_.close("a later reason");
  expect_aborted(client_, "rank 1 failed");
  EXPECT_EQ(client_.get("there", 0), "value");
  client_.set("after", "x");
  EXPECT_EQ(client_.get("after", 0), "x");
  EXPECT_EQ(client_.add("n", 1), 1);
}

TEST_P(AnyStore, ManyThreadsAtOnce) {
  constexpr int kThreads = 16;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      client_.set(concat("t", i), std::to_string(i * i));
      const int next = (i + 1) % kThreads;
      if (client_.get(concat("t", next), kPatienceMs) != std::to_string(next * next)) ++wrong;
      client_.add("sum", i);
    });
  }
  for (auto& thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(client_.add("sum", 0), kThreads * (kThreads - 1) / 2);
}

INSTANTIATE_TEST_SUITE_P(Stores, AnyStore, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "tcp" : "memory"; });

TEST(Secrets, AreLongAndDiffer) {
  EXPECT_EQ(random_secret().size(), 32u);
  EXPECT_NE(random_secret(), random_secret());
}

TEST_F(TcpStore, FiftyClientsMeet) {
  constexpr int kClients = 50;
  std::vector<std::thread> threads;
  std::atomic<int> met{0};
  for (int rank = 0; rank < kClients; ++rank) {
    threads.emplace_back([&, rank] {
      const auto client = join();
      client->set(concat("rank/", rank), std::to_string(rank));
      for (int peer = 0; peer < kClients; ++peer)
        if (client->get(concat("rank/", peer), kPatienceMs) == std::to_string(peer)) ++met;
    });
  }
  for (auto& thread : threads)
    thread.join();
  EXPECT_EQ(met, kClients * kClients);
}

TEST_F(TcpStore, NobodyThereIsADeadline) {
  const uint16_t port = server_->port();
  server_.reset();
  try {
    TcpStoreClient("127.0.0.1", port, secret_, {}, 200);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), TSR_E_DEADLINE);
    EXPECT_NE(std::string(error.what()).find("no server answers"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("MASTER_PORT"), std::string::npos) << error.what();
  }
}

TEST_F(TcpStore, ClientsWaitForTheServerToComeUp) {
  const uint16_t port = server_->port();
  server_.reset();
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    server_ = std::make_unique<TcpStoreServer>("127.0.0.1", port, secret_);
  });
  const TcpStoreClient client("127.0.0.1", port, secret_, {}, kPatienceMs);
  late.join();
}

TEST_F(TcpStore, AServerThatEndsFreesItsWaitingClients) {
  const auto client = join();
  std::thread stop([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    server_.reset();
  });
  try {
    client->get("never", testing::kNeverMs);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), TSR_E_UNAVAILABLE) << error.what();
  }
  stop.join();
}

/// A server in a process of its own, which is stopped: to its clients it is a machine that was cut off.
class SilentStore {
 public:
  void silence() {
    server_.signal(SIGSTOP);
    ::waitpid(server_.id(), nullptr, WUNTRACED);
  }
  void kill() { server_.signal(SIGKILL); }
  std::shared_ptr<TcpStoreClient> join(int64_t reply_ms) const {
    return std::make_shared<TcpStoreClient>("127.0.0.1", port_, "secret", Participant{}, kPatienceMs, reply_ms);
  }

 private:
  testing::ChildProcess server_{[](const testing::ChildProcess::Say& say) {
    const TcpStoreServer server("127.0.0.1", 0, "secret");
    say(std::to_string(server.port()));
    ::pause();
  }};
  const uint16_t port_ = static_cast<uint16_t>(std::stoi("0" + server_.next_line(kPatienceMs)));
};

int64_t ms_since(Deadline start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(deadline_in(0) - start).count();
}

TEST(ASilentStore, EndsEveryRequestInItsTime) {
  testing::with_short_time(1'000, [](int64_t reply_ms) {
    SilentStore store;
    const auto client = store.join(reply_ms);
    client->set("key", "value");
    EXPECT_FALSE(client->is_silent());
    store.silence();
    for (const std::function<void()>& request :
         {std::function<void()>([&] { client->set("key", ""); }), std::function<void()>([&] { client->add("n", 1); }),
          std::function<void()>([&] { client->get("key", 500); }),
          std::function<void()>([&] { client->get("key", 0); })}) {
      const Deadline start = deadline_in(0);
      expect_error(request, {"is gone"});
      EXPECT_LT(ms_since(start), 4 * reply_ms);
      EXPECT_TRUE(client->is_silent());
    }
  });
}

// The watch has the only connection, so the next request opens another, which gets no answer.
TEST(ASilentStore, DelaysNeitherTheReportNorTheEndOfARank) {
  testing::with_short_time(1'000, [](int64_t reply_ms) {
    SilentStore store;
    JobWatch watch(store.join(reply_ms), 1, 100, false);
    std::this_thread::sleep_for(std::chrono::milliseconds(reply_ms / 20));
    store.silence();
    const Deadline start = deadline_in(0);
    watch.end();
    EXPECT_TRUE(watch.is_cut_off());
    EXPECT_FALSE(watch.tell(Failure{}));
    EXPECT_TRUE(watch.is_cut_off());
    EXPECT_LT(ms_since(start), 4 * reply_ms);
    store.kill();  // so that the watch ends
  });
}

// Nor is a key missing, which would be blamed on the rank that sets it.
TEST_F(TcpStore, AServerThatHasEndedIsNotWaitedFor) {
  const auto client = join();
  server_.reset();
  const Deadline deadline = deadline_in(kPatienceMs);
  for (int i = 0; i < 3; ++i)
    expect_error([&] { client->get("key", 0); }, {"store at 127.0.0.1:", "is gone (key 'key'"});
  EXPECT_GT(remaining_ms(deadline), 0);
}

TEST_F(TcpStore, TheServersOwnerSharesTheStore) {
  const auto client = join();
  std::thread owner([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    server_->store().set("from owner", "value");
  });
  EXPECT_EQ(client->get("from owner", kPatienceMs), "value");
  owner.join();
  client->set("from client", "x");
  EXPECT_EQ(server_->store().get("from client", 0), "x");
  server_->store().close("ended by the owner");
  expect_aborted(*client, "ended by the owner");
}

// Larger than the sockets' buffers: the reply goes out in pieces, while others are served.
TEST_F(TcpStore, AReaderThatIsSlowDelaysNobody) {
  const auto client = join();
  const std::string large(kMaxValueBytes, 'v');
  client->set("large", large);
  const Socket slow = join_store("127.0.0.1", server_->port(), secret_, {}, kPatienceMs);
  const std::string frame = wire::request(wire::kGet, "large", "", 0);
  slow.write(frame.data(), frame.size(), deadline_in(kPatienceMs));
  for (int i = 0; i < 20; ++i)
    client->set("small", "x");
  std::string reply(sizeof(wire::Reply) + large.size(), ' ');
  slow.read(reply.data(), reply.size(), deadline_in(kPatienceMs));
  EXPECT_EQ(reply.substr(sizeof(wire::Reply)), large);
  slow.write(frame.data(), frame.size(), deadline_in(kPatienceMs));  // and the connection goes on
  slow.read(reply.data(), reply.size(), deadline_in(kPatienceMs));
}

TEST_F(TcpStore, APortInUseIsAnError) {
  expect_error([&] { TcpStoreServer("127.0.0.1", server_->port(), secret_); }, {"cannot listen", "in use"});
}

// A member of the job that breaks the protocol loses its connection, not the server.
TEST_F(TcpStore, BadRequestsOfAMemberEndItsConnectionOnly) {
  const auto client = join();
  for (const uint64_t key_num_bytes : {uint64_t{1} << 60, uint64_t{kMaxKeyBytes + 1}}) {
    const Socket socket = join_store("127.0.0.1", server_->port(), secret_, {}, kPatienceMs);
    const wire::Request request{wire::kSet, key_num_bytes, 0, 0};
    socket.write(&request, sizeof request, deadline_in(kPatienceMs));
    EXPECT_TRUE(testing::is_dropped(socket, kPatienceMs));
  }
  client->set("still", "here");
  EXPECT_EQ(client->get("still", 0), "here");
}

}  // namespace
}  // namespace tessera::host
