// How the ranks of a launcher that is not ours find one another, when rank 0 serves the key-value store.
#include "launch/job_store.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <sstream>
#include <thread>

#include "support/expect_error.h"
#include "support/store_fixture.h"

namespace tessera::host {
namespace {

using testing::expect_error;
using testing::kPatienceMs;

const Log kSilent(LogLevel::off);

RankEnvironment rank_zero(uint16_t port, const std::string& secret = "shared") {
  RankEnvironment environment;
  environment.world_size = environment.local_size = 2;
  environment.store_host = "127.0.0.1";
  environment.store_port = port;
  environment.secret = secret;
  environment.serves_store = true;
  return environment;
}

// The first of two jobs with one port; its rank 0 is another process.
class OtherJob : public ::testing::Test {
 protected:
  TcpStoreServer server_{"127.0.0.1", 0, "shared"};
  TcpStoreClient zero_{"127.0.0.1", server_.port(), "shared", {0, 1, "hostA"}, kPatienceMs};
};

TEST_F(OtherJob, ASecondRankZeroEndsBothBeforeTheyStart) {
  const std::string ours = to_string(this_process(0));
  expect_error([&] { join_job(rank_zero(server_.port()), testing::kNeverMs, kSilent); },
               {"rank 0", "process 1 on hostA", ours, "MASTER_PORT"});
  expect_error([&] { zero_.get("never", kPatienceMs); }, {"process 1 on hostA", ours});
}

TEST_F(OtherJob, ASecondRankZeroIsRefusedAfterwards) {
  zero_.set(kJobStarted, "");
  expect_error([&] { join_job(rank_zero(server_.port()), testing::kNeverMs, kSilent); }, {"process 1 on hostA"});
  zero_.set("key", "value");
  EXPECT_EQ(zero_.get("key", 0), "value");
  expect_error([&] { zero_.get("never", 10); }, {"no rank set 'never'"});
}

TEST_F(OtherJob, WithAnotherSecretItIsLeftAlone) {
  expect_error([&] { join_job(rank_zero(server_.port(), "another"), testing::kNeverMs, kSilent); },
               {"another secret", "another job", "MASTER_PORT"});
  expect_error([&] { zero_.get("never", 10); }, {"no rank set 'never'"});
}

TEST(JobStore, AnotherProgramAtThePortIsNamedAsThat) {
  const Socket silent = Socket::listen("127.0.0.1", 0);
  expect_error([&] { join_job(rank_zero(silent.local_port()), 500, kSilent); },
               {"rank 0 cannot serve", "another program", "MASTER_PORT"});
}

// It refuses at once, so that nothing but a pause keeps rank 0 from asking all the time.
TEST(JobStore, AsksWhatHasThePortATurnAtATime) {
  testing::with_short_time(1'000, [](int64_t timeout_ms) {
    const Socket listener = Socket::listen("127.0.0.1", 0);
    std::atomic<bool> is_over{false};
    int num_asked = 0;
    std::thread web([&] {
      while (!is_over) {
        const Socket socket = listener.accept();
        if (socket.fd() < 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          continue;
        }
        ++num_asked;
        testing::shout(socket, "HTTP/1.1 400 Bad Request\r\n" + std::string(100, ' '));
      }
    });
    expect_error([&] { join_job(rank_zero(listener.local_port()), timeout_ms, kSilent); }, {"another program"});
    is_over = true;
    web.join();
    EXPECT_GE(num_asked, 1);
    EXPECT_LE(num_asked, timeout_ms / 100 + 1);
  });
}

// The port is taken, but no server listens on it.
TEST(JobStore, WaitsForAPortThatGetsFree) {
  Socket bound(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(bound.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const uint16_t port = bound.local_port();
  expect_error([&] { join_job(rank_zero(port), 100, kSilent); }, {"rank 0 cannot serve", "MASTER_PORT"});
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    bound = {};
  });
  EXPECT_NE(join_job(rank_zero(port), kPatienceMs, kSilent).server, nullptr);
  other.join();
}

struct Listening {
  std::string address, log;
};

Listening listening(const std::string& store_host, int local_size) {
  RankEnvironment environment = rank_zero(1);
  environment.local_size = local_size;
  environment.store_host = store_host;
  std::ostringstream out;
  const std::string address = listen_address(environment, Log(out, LogLevel::info));
  return {address, out.str()};
}

TEST(ListenAddress, IsLoopbackWhenAllRanksAreHere) {
  EXPECT_EQ(listening("127.0.0.1", 2).address, "127.0.0.1");
  EXPECT_EQ(listening("127.0.0.1", 1).address, "127.0.0.1");  // two nodes that are one machine
  EXPECT_EQ(listening("127.0.1.1", 1).address, "127.0.1.1");
  EXPECT_EQ(listening("no-such-host.invalid", 2).address, "127.0.0.1");
  EXPECT_EQ(listening("127.0.0.1", 1).log, "");
}

TEST(ListenAddress, IsAllInterfacesWhenTheNameSaysNothing) {
  const Listening translated = listening("192.0.2.1", 1);  // of no machine: kept for documents
  EXPECT_EQ(translated.address, "0.0.0.0");
  EXPECT_NE(translated.log.find("all interfaces"), std::string::npos) << translated.log;
  EXPECT_NE(translated.log.find("192.0.2.1"), std::string::npos) << translated.log;
  const Listening unknown = listening("no-such-host.invalid", 1);
  EXPECT_EQ(unknown.address, "0.0.0.0");
  EXPECT_NE(unknown.log.find("cannot be resolved here"), std::string::npos) << unknown.log;
}

}  // namespace
}  // namespace tessera::host
