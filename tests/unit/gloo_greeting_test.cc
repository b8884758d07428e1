// Who gets past a greeting of gloo-comm, and who does not.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "gloo-comm/greeting.h"

namespace tessera::gloo_comm {
namespace {

using Result = Greeting::Result;

struct Ends {
  Descriptor client, server;
};

Ends connection() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  return {Descriptor(fds[0]), Descriptor(fds[1])};
}

Circle circle_of(uint8_t key, const std::string& prefix = "comm/dp") {
  Circle circle{{}, prefix, 3};
  circle.key.fill(key);
  return circle;
}

/// How a greeting from member 2 to member 0 ends on both sides.
std::pair<Result, Result> greet(const Circle& client_circle, const Circle& server_circle, int to = 0, int from = 2) {
  Ends ends = connection();
  Greeting client(client_circle, std::move(ends.client), from, to), server(server_circle, std::move(ends.server), 0);
  Result c = Result::kPending, s = Result::kPending;
  for (int i = 0; i < 8; ++i) {
    if (c == Result::kPending) c = client.advance();
    if (s == Result::kPending) s = server.advance();
  }
  return {c, s};
}

const std::pair kBothWelcome(Result::kWelcome, Result::kWelcome);
const std::pair kBothDropped(Result::kDropped, Result::kDropped);

TEST(GlooGreeting, MembersAreWelcome) {
  EXPECT_EQ(greet(circle_of(1), circle_of(1)), kBothWelcome);
}

TEST(GlooGreeting, AnotherKeyIsNot) {
  EXPECT_EQ(greet(circle_of(2), circle_of(1)), kBothDropped);
}

TEST(GlooGreeting, NorIsAnotherCommunicatorsMember) {
  EXPECT_EQ(greet(circle_of(1, "comm/tp"), circle_of(1)), kBothDropped);
}

TEST(GlooGreeting, NorWhoWantsAnotherMemberOrIsNone) {
  EXPECT_EQ(greet(circle_of(1), circle_of(1), 1), kBothDropped);
  EXPECT_EQ(greet(circle_of(1), circle_of(1), 0, 3), kBothDropped);
  EXPECT_EQ(greet(circle_of(1), circle_of(1), 0, 0), kBothDropped);
}

std::string take(const Descriptor& socket) {
  std::string bytes(4096, '\0');
  const ssize_t got = recv(socket.get(), bytes.data(), bytes.size(), 0);
  return bytes.substr(0, got > 0 ? static_cast<size_t>(got) : 0);
}

/// Everything the client of a greeting that ended well said, message by message.
std::vector<std::string> record(const Circle& circle) {
  Ends near = connection(), far = connection();  // the recorder sits between them
  Greeting client(circle, std::move(near.client), 2, 0), server(circle, std::move(far.server), 0);
  std::vector<std::string> said;
  Result s = Result::kPending;
  for (int i = 0; i < 8 && s == Result::kPending; ++i) {
    client.advance();
    if (const std::string bytes = take(near.server); !bytes.empty()) {
      said.push_back(bytes);
      EXPECT_TRUE(send_all(far.client, bytes.data(), bytes.size()));
    }
    s = server.advance();
    const std::string answer = take(far.client);
    EXPECT_TRUE(send_all(near.server, answer.data(), answer.size()));
  }
  EXPECT_EQ(s, Result::kWelcome);
  return said;
}

TEST(GlooGreeting, ARecordedOneIsNotTakenAgain) {
  const Circle circle = circle_of(1);
  const auto said = record(circle);
  ASSERT_EQ(said.size(), 2u);  // hello and proof
  Ends ends = connection();
  Greeting server(circle, std::move(ends.server), 0);
  EXPECT_TRUE(send_all(ends.client, said[0].data(), said[0].size()));
  EXPECT_EQ(server.advance(), Result::kPending);  // it has been said by a member once
  EXPECT_TRUE(send_all(ends.client, said[1].data(), said[1].size()));
  EXPECT_EQ(server.advance(), Result::kDropped);
}

TEST(GlooGreeting, NorIsWhatOneSideSaidGoodForTheOther) {
  const Circle circle = circle_of(1);
  Ends ends = connection();
  Greeting client(circle, std::move(ends.client), 2, 0);
  EXPECT_EQ(client.advance(), Result::kPending);
  const std::string hello = take(ends.server);
  EXPECT_TRUE(send_all(ends.server, hello.data(), hello.size()));
  EXPECT_EQ(client.advance(), Result::kDropped);
}

TEST(GlooGreeting, WordsThatComeInPiecesAreAwaited) {
  const Circle circle = circle_of(1);
  const auto said = record(circle);
  Ends ends = connection();
  Greeting server(circle, std::move(ends.server), 0);
  for (const char c : said[0]) {
    EXPECT_TRUE(send_all(ends.client, &c, 1));
    EXPECT_EQ(server.advance(), Result::kPending);
  }
  EXPECT_EQ(server.peer(), 2);
}

}  // namespace
}  // namespace tessera::gloo_comm
