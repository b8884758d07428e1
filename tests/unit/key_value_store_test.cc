#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "launch/store_wire.h"
#include "launch/tcp_store.h"
#include "observe/text.h"
#include "support/expect_error.h"

namespace tessera {
namespace {

using testing::expect_error;

constexpr int64_t kSoonMs = 5'000;

// Both stores must behave alike.
struct Store {
  std::unique_ptr<TcpStoreServer> server;
  std::unique_ptr<KeyValueStore> client;
};

Store make_store(bool over_tcp) {
  if (!over_tcp) return {nullptr, std::make_unique<MemoryStore>()};
  const std::string secret = random_secret();
  auto server = std::make_unique<TcpStoreServer>("127.0.0.1", 0, secret);
  auto client = std::make_unique<TcpStoreClient>("127.0.0.1", server->port(), secret, kSoonMs);
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
  std::thread setter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    client_.set("late", "value");
  });
  EXPECT_EQ(client_.get("late", kSoonMs), "value");
  setter.join();
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
  EXPECT_LT(took, std::chrono::seconds(3));
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

TEST_P(AnyStore, ManyThreadsAtOnce) {
  constexpr int kThreads = 16;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      client_.set(concat("t", i), std::to_string(i * i));
      const int next = (i + 1) % kThreads;
      if (client_.get(concat("t", next), kSoonMs) != std::to_string(next * next)) ++wrong;
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

class TcpStore : public ::testing::Test {
 protected:
  std::unique_ptr<TcpStoreClient> join(int64_t timeout_ms = kSoonMs) {
    return std::make_unique<TcpStoreClient>("127.0.0.1", server_->port(), secret_, timeout_ms);
  }
  Socket stranger() { return Socket::connect("127.0.0.1", server_->port(), deadline_in(kSoonMs)); }

  std::string secret_ = random_secret();
  std::unique_ptr<TcpStoreServer> server_ = std::make_unique<TcpStoreServer>("127.0.0.1", 0, secret_);
};

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
        if (client->get(concat("rank/", peer), 20'000) == std::to_string(peer)) ++met;
    });
  }
  for (auto& thread : threads)
    thread.join();
  EXPECT_EQ(met, kClients * kClients);
}

// What a port scanner does, while ranks meet.
TEST_F(TcpStore, StrangersAreDroppedWithoutHarm) {
  const auto client = join();
  std::vector<Socket> silent;
  for (int i = 0; i < 5; ++i)
    silent.push_back(stranger());
  for (const std::string& noise : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100'000, '\xff'),
                                   std::string(1, 'T'), std::string(200, '\0')}) {
    const Socket socket = stranger();
    try {
      socket.write(noise.data(), noise.size(), deadline_in(kSoonMs));
    } catch (const Error&) {  // disconnected while it wrote
    }
    client->set("key", noise);
    EXPECT_EQ(join()->get("key", kSoonMs), noise);
  }
}

TEST_F(TcpStore, StrangersGetNoAnswer) {
  const Socket socket = stranger();
  const std::string wrong = "TSRSTOR1" + std::string(64, '0');
  socket.write(wrong.data(), wrong.size(), deadline_in(kSoonMs));
  char byte;
  expect_error([&] { socket.read(&byte, 1, deadline_in(kSoonMs)); }, {"closed"});
}

TEST_F(TcpStore, AWrongSecretIsAnErrorOfTheClient) {
  expect_error([&] { TcpStoreClient("127.0.0.1", server_->port(), random_secret(), kSoonMs); },
               {"127.0.0.1", "does not know this job's secret", "TESSERA_JOB_SECRET"});
}

TEST_F(TcpStore, NobodyThereIsADeadline) {
  const uint16_t port = server_->port();
  server_.reset();
  try {
    TcpStoreClient("127.0.0.1", port, secret_, 200);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), TSR_E_DEADLINE);
    EXPECT_NE(std::string(error.what()).find("nobody answers"), std::string::npos) << error.what();
  }
}

TEST_F(TcpStore, ClientsWaitForTheServerToComeUp) {
  const uint16_t port = server_->port();
  server_.reset();
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    server_ = std::make_unique<TcpStoreServer>("127.0.0.1", port, secret_);
  });
  const TcpStoreClient client("127.0.0.1", port, secret_, kSoonMs);
  late.join();
}

TEST_F(TcpStore, AServerThatEndsFreesItsWaitingClients) {
  const auto client = join();
  std::thread stop([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    server_.reset();
  });
  try {
    client->get("never", 60'000);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), TSR_E_UNAVAILABLE) << error.what();
  }
  stop.join();
}

TEST_F(TcpStore, APortInUseIsAnError) {
  expect_error([&] { TcpStoreServer("127.0.0.1", server_->port(), secret_); }, {"cannot listen", "in use"});
}

// A member of the job that breaks the protocol loses its connection, not the server.
TEST_F(TcpStore, BadRequestsOfAMemberEndItsConnectionOnly) {
  const auto client = join();
  for (const uint64_t key_num_bytes : {uint64_t{1} << 60, uint64_t{kMaxKeyBytes + 1}}) {
    const Socket socket = stranger();
    const std::string hello = wire::hello(secret_);
    socket.write(hello.data(), hello.size(), deadline_in(kSoonMs));
    char welcome = 0;
    socket.read(&welcome, 1, deadline_in(kSoonMs));
    EXPECT_EQ(welcome, wire::kWelcome);
    const wire::Request request{wire::kSet, key_num_bytes, 0, 0};
    socket.write(&request, sizeof request, deadline_in(kSoonMs));
    expect_error([&] { socket.read(&welcome, 1, deadline_in(kSoonMs)); }, {"closed"});
  }
  client->set("still", "here");
  EXPECT_EQ(client->get("still", 0), "here");
}

}  // namespace
}  // namespace tessera
