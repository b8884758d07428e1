// Sockets with deadlines: that a far one is waited for, and that a name's addresses share it.
#include "launch/socket.h"

#include <gtest/gtest.h>
#include <netdb.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include <future>
#include <string_view>
#include <thread>
#include <vector>

#include "support/child_process.h"
#include "support/patience.h"
#include "support/temp_folder.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using testing::ChildProcess;
using testing::kPatienceMs;
using testing::TempFolder;

// A rank that is told of nothing for days has not lost its store.
TEST(Socket, OutlastsTheLongestSingleWait) {
  const Socket listener = Socket::listen("127.0.0.1", 0);
  const Socket here = Socket::connect("127.0.0.1", listener.local_port(), deadline_in(kPatienceMs));
  Socket there;
  ASSERT_TRUE(testing::eventually([&] { return (there = listener.accept()).fd() >= 0; }));
  EXPECT_EQ(remaining_ms(deadline_in(int64_t{1} << 40)), kLongestWaitMs);
  auto writer = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(kLongestWaitMs + 100));
    there.write("x", 1, deadline_in(kPatienceMs));
  });
  char byte = 0;
  here.read(&byte, 1, deadline_in(int64_t{1} << 40));
  EXPECT_EQ(byte, 'x');
}

/// In this process, `twofold` has two addresses; false where that takes rights that it does not have.
bool name_two_addresses(const std::string& hosts) {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount(hosts.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0;
}

/// As text; the system has an order of its own.
std::string first_address_of(const std::string& name) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return "";
  char text[NI_MAXHOST] = "";
  ::getnameinfo(list->ai_addr, list->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  ::freeaddrinfo(list);
  return text;
}

// As IPv6 in some networks: packets to the first address are dropped, which is not refusing.
TEST(Socket, AnAddressThatDoesNotAnswerLeavesTimeForTheNext) {
  const TempFolder folder;
  const std::string hosts = folder.write("hosts", "127.0.0.1 twofold\n127.0.0.2 twofold\n");
  ChildProcess child([&](const ChildProcess::Say& say) {
    if (!name_two_addresses(hosts)) return say("skip");
    const std::string first = first_address_of("twofold"), other = first == "127.0.0.1" ? "127.0.0.2" : "127.0.0.1";
    const Socket server = Socket::listen(other, 0), silent = Socket::listen(first, server.local_port());
    ::listen(silent.fd(), 0);  // its queue holds one connection, and further ones get no answer
    const Socket filler = Socket::connect(first, server.local_port(), deadline_in(kPatienceMs));
    const Socket socket = Socket::connect("twofold", server.local_port(), deadline_in(kPatienceMs));
    say(server.accept().fd() < 0 ? "another server" : "connected");
  });
  const std::string said = child.next_line(2 * kPatienceMs);
  if (said == "skip") GTEST_SKIP() << "needs the right to mount a file over /etc/hosts";
  EXPECT_EQ(said, "connected");
}

// As in a new network namespace: no retry mends it, so the deadline is not waited for.
TEST(Socket, ALoopbackInterfaceThatIsDownIsRefusedAtOnce) {
  ChildProcess child([&](const ChildProcess::Say& say) {
    if (::unshare(CLONE_NEWNET) != 0) return say("skip");
    const Socket server = Socket::listen("127.0.0.1", 0);
    Socket::connect("127.0.0.1", server.local_port(), deadline_in(100 * kPatienceMs));
    say("connected");
  });
  const std::string said = child.next_line(kPatienceMs);
  if (said == "skip") GTEST_SKIP() << "needs the right to make a network namespace";
  EXPECT_EQ(said,
            "threw cannot reach 127.0.0.1, this machine's own address: Network is unreachable; bring the loopback "
            "interface up (ip link set lo up)");
}

TEST(Socket, EachFailedAttemptIsToldWithItsReason) {
  const uint16_t port = Socket::listen("127.0.0.1", 0).local_port();  // free again
  std::vector<std::string> reasons;
  const auto note = [&](std::string_view reason) { reasons.emplace_back(reason); };
  EXPECT_THROW(Socket::connect("127.0.0.1", port, deadline_in(200), Refused::not_yet, note), Error);
  ASSERT_GE(reasons.size(), 1u);
  EXPECT_NE(reasons[0].find("no server answers at 127.0.0.1 port "), std::string::npos) << reasons[0];
  EXPECT_NE(reasons[0].find(": Connection refused"), std::string::npos) << reasons[0];
}

}  // namespace
}  // namespace tessera::host
