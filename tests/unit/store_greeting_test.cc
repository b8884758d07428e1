// The greeting of the key-value store: what the two sides prove, and what each says when the other is not what it
// should be.
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "base/sha256.h"
#include "launch/store/join.h"
#include "launch/store/wire.h"
#include "support/expect_error.h"
#include "support/store_fixture.h"

namespace tessera::host {
namespace {

using testing::expect_error;
using testing::is_dropped;
using testing::kPatienceMs;
using testing::shout;
using testing::TcpStore;

template <class Frame>
Frame read_frame(const Socket& socket) {
  Frame frame;
  socket.read(&frame, sizeof frame, deadline_in(kPatienceMs));
  return frame;
}

template <class Frame>
void write_frame(const Socket& socket, const Frame& frame) {
  socket.write(&frame, sizeof frame, deadline_in(kPatienceMs));
}

// What a listener does with each connection, until it is destroyed.
class FakeStore {
 public:
  explicit FakeStore(std::function<void(const Socket&)> behave)
      : listener_(Socket::listen("127.0.0.1", 0)), thread_([this, behave = std::move(behave)] { run(behave); }) {}
  ~FakeStore() {
    is_stopping_ = true;
    thread_.join();
  }

  uint16_t port() const { return listener_.local_port(); }

 private:
  void run(const std::function<void(const Socket&)>& behave) const {
    while (!is_stopping_) {
      const Socket socket = listener_.accept();
      if (socket.fd() < 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        continue;
      }
      try {
        behave(socket);
      } catch (const Error&) {  // the client is gone
      }
    }
  }

  Socket listener_;
  std::atomic<bool> is_stopping_{false};
  std::thread thread_;
};

TEST_F(TcpStore, AStrangerWhoSaysSomethingElseGetsNoAnswer) {
  for (const std::string& noise : {std::string("GET / HTTP/1.1\r\n\r\n") + std::string(100, ' '),
                                   "TSRSTOR1" + std::string(64, '0'), std::string(100, '\0')}) {
    const Socket socket = stranger();
    shout(socket, noise);
    char byte;
    try {
      socket.read(&byte, 1, deadline_in(kPatienceMs));
      ADD_FAILURE() << "it was answered";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), TSR_E_UNAVAILABLE) << error.what();
    }
  }
}

TEST_F(TcpStore, AnotherSecretIsRefusedAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  try {
    TcpStoreClient("127.0.0.1", server_->port(), random_secret(), {}, testing::kNeverMs);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), TSR_E_FAILED_PRECONDITION);
    for (const char* part : {"127.0.0.1:", "another secret", "another job", "TESSERA_JOB_SECRET", "MASTER_PORT"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << ": " << error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, testing::kPatience);
}

// All that a client said in a greeting that was let in, said again.
TEST_F(TcpStore, AReplayIsRefused) {
  const wire::Hello hello{wire::kMagic, wire::random_bytes()};
  wire::Claim claim = wire::claim_of({1, 77, "here"});
  for (const bool is_replay : {false, true}) {
    const Socket socket = stranger();
    write_frame(socket, hello);
    const auto theirs = read_frame<wire::Hello>(socket);
    if (!is_replay) claim.proof = wire::Proofs{secret_, hello.nonce, theirs.nonce}.client(claim);
    write_frame(socket, claim);
    EXPECT_EQ(read_frame<wire::Answer>(socket).kind, is_replay ? wire::kOtherSecret : wire::kWelcome);
    EXPECT_EQ(is_dropped(socket, is_replay ? kPatienceMs : 0), is_replay);
  }
}

// The claim's proof holds for this rank and process only.
TEST_F(TcpStore, AClaimThatWasAlteredIsRefused) {
  const Socket socket = stranger();
  const wire::Hello hello{wire::kMagic, wire::random_bytes()};
  write_frame(socket, hello);
  const auto theirs = read_frame<wire::Hello>(socket);
  wire::Claim claim = wire::claim_of({1, 77, "here"});
  claim.proof = wire::Proofs{secret_, hello.nonce, theirs.nonce}.client(claim);
  claim.rank = 0;
  write_frame(socket, claim);
  EXPECT_EQ(read_frame<wire::Answer>(socket).kind, wire::kOtherSecret);
}

// It takes the client for a fool: it sends back whatever the client sends, as its own.
TEST_F(TcpStore, AListenerThatPretendsLearnsNothingAndIsToldApart) {
  std::string heard;
  FakeStore fake([&](const Socket& socket) {
    const auto hello = read_frame<wire::Hello>(socket);
    write_frame(socket, hello);
    const auto claim = read_frame<wire::Claim>(socket);
    heard.append(wire::bytes_of(hello)).append(wire::bytes_of(claim));
    write_frame(socket, wire::Answer{claim.proof, wire::kWelcome});
    is_dropped(socket, kPatienceMs);
  });
  expect_error([&] { join_store("127.0.0.1", fake.port(), secret_, {}, kPatienceMs); },
               {"not this job's key-value store", "does not know this job's secret", "MASTER_PORT"});
  EXPECT_EQ(heard.size(), sizeof(wire::Hello) + sizeof(wire::Claim));
  EXPECT_EQ(heard.find(secret_), std::string::npos);
  EXPECT_EQ(heard.find(sha256_hex(secret_)), std::string::npos);
}

// It passes the greeting on to the real store, but wants to say "refused" where that said "welcome".
TEST_F(TcpStore, AnAnswerThatWasAlteredIsToldApart) {
  FakeStore relay([&](const Socket& client) {
    const Socket store = stranger();
    write_frame(store, read_frame<wire::Hello>(client));
    write_frame(client, read_frame<wire::Hello>(store));
    write_frame(store, read_frame<wire::Claim>(client));
    auto answer = read_frame<wire::Answer>(store);
    answer.kind = wire::kRefused;
    write_frame(client, answer);
    is_dropped(client, kPatienceMs);
  });
  expect_error([&] { join_store("127.0.0.1", relay.port(), secret_, {}, kPatienceMs); }, {"does not know this job's"});
}

TEST_F(TcpStore, AnotherProgramIsToldApart) {
  FakeStore web([](const Socket& socket) { shout(socket, "HTTP/1.1 400 Bad Request\r\n" + std::string(100, ' ')); });
  expect_error([&] { join_store("127.0.0.1", web.port(), secret_, {}, kPatienceMs); },
               {"another protocol", "another program has the port", "MASTER_PORT"});
  const Socket silent = Socket::listen("127.0.0.1", 0);
  expect_error([&] { join_store("127.0.0.1", silent.local_port(), secret_, {}, 200); },
               {"does not answer: another program has the port, or rank 0 is stopped or overloaded"});
  FakeStore closing([](const Socket&) {});
  expect_error([&] { join_store("127.0.0.1", closing.port(), secret_, {}, 1'000); },
               {"another program has the port", "MASTER_PORT"});
}

TEST_F(TcpStore, AnErrorWithoutAReasonHasASentence) {
  for (const std::string& reason : {std::string(), std::string(3, '\0')}) {
    FakeStore relay([&](const Socket& client) {
      const Socket store = stranger();
      write_frame(store, read_frame<wire::Hello>(client));
      write_frame(client, read_frame<wire::Hello>(store));
      write_frame(store, read_frame<wire::Claim>(client));
      write_frame(client, read_frame<wire::Answer>(store));
      shout(client, wire::reply(TSR_E_INVALID_ARGUMENT, reason));
      is_dropped(client, kPatienceMs);
    });
    TcpStoreClient client("127.0.0.1", relay.port(), secret_, {}, kPatienceMs);
    expect_error([&] { client.set("key", "value"); }, {"refused a request without a reason"});
  }
}

// As a crowded store does.
TEST_F(TcpStore, AClientThatIsDroppedBeforeTheAnswerTriesAgain) {
  int tries = 0;
  FakeStore crowded([&](const Socket& client) {
    if (++tries < 4) return;
    const Socket store = stranger();
    write_frame(store, read_frame<wire::Hello>(client));
    write_frame(client, read_frame<wire::Hello>(store));
    if (tries < 6) return;
    write_frame(store, read_frame<wire::Claim>(client));
    write_frame(client, read_frame<wire::Answer>(store));
  });
  join_store("127.0.0.1", crowded.port(), secret_, {}, kPatienceMs);
  EXPECT_EQ(tries, 6);
}

}  // namespace
}  // namespace tessera::host
