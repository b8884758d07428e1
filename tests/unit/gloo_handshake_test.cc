// Which connections pass the handshake of gloo-comm, and which do not.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>

#include "gloo-comm/connections/handshake.h"
#include "gloo-comm/connections/sockets.h"

namespace tessera::gloo_comm {
namespace {

using Result = Handshake::Result;

struct Ends {
  Descriptor client, server;
};

Ends connection() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  return {Descriptor(fds[0]), Descriptor(fds[1])};
}

GroupKey key_of(uint8_t key, const std::string& prefix = "comm/dp") {
  GroupKey group{{}, prefix, 3};
  group.key.fill(key);
  return group;
}

/// The result of a handshake from member 2 to member 0 on both sides.
std::pair<Result, Result> shake_hands(const GroupKey& client_key, const GroupKey& server_key, int to = 0,
                                      int from = 2) {
  Ends ends = connection();
  Handshake client(client_key, std::move(ends.client), from, to), server(server_key, std::move(ends.server), 0);
  Result c = Result::kPending, s = Result::kPending;
  for (int i = 0; i < 8; ++i) {
    if (c == Result::kPending) c = client.advance();
    if (s == Result::kPending) s = server.advance();
  }
  return {c, s};
}

const std::pair kBothAccepted(Result::kAccepted, Result::kAccepted);
const std::pair kBothRejected(Result::kRejected, Result::kRejected);

TEST(GlooHandshake, MembersAreWelcome) {
  EXPECT_EQ(shake_hands(key_of(1), key_of(1)), kBothAccepted);
}

TEST(GlooHandshake, AnotherKeyIsNot) {
  EXPECT_EQ(shake_hands(key_of(2), key_of(1)), kBothRejected);
}

TEST(GlooHandshake, NorIsAnotherCommunicatorsMember) {
  EXPECT_EQ(shake_hands(key_of(1, "comm/tp"), key_of(1)), kBothRejected);
}

TEST(GlooHandshake, NorWhoWantsAnotherMemberOrIsNone) {
  EXPECT_EQ(shake_hands(key_of(1), key_of(1), 1), kBothRejected);
  EXPECT_EQ(shake_hands(key_of(1), key_of(1), 0, 3), kBothRejected);
  EXPECT_EQ(shake_hands(key_of(1), key_of(1), 0, 0), kBothRejected);
}

std::string take(const Descriptor& socket) {
  std::string bytes(4096, '\0');
  const ssize_t got = recv(socket.get(), bytes.data(), bytes.size(), 0);
  return bytes.substr(0, got > 0 ? static_cast<size_t>(got) : 0);
}

/// Everything the client of a handshake that ended well said, message by message.
std::vector<std::string> record(const GroupKey& group) {
  Ends near = connection(), far = connection();  // the recorder sits between them
  Handshake client(group, std::move(near.client), 2, 0), server(group, std::move(far.server), 0);
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
  EXPECT_EQ(s, Result::kAccepted);
  return said;
}

TEST(GlooHandshake, ARecordedOneIsNotTakenAgain) {
  const GroupKey group = key_of(1);
  const auto said = record(group);
  ASSERT_EQ(said.size(), 2u);  // hello and proof
  Ends ends = connection();
  Handshake server(group, std::move(ends.server), 0);
  EXPECT_TRUE(send_all(ends.client, said[0].data(), said[0].size()));
  EXPECT_EQ(server.advance(), Result::kPending);  // it has been said by a member once
  EXPECT_TRUE(send_all(ends.client, said[1].data(), said[1].size()));
  EXPECT_EQ(server.advance(), Result::kRejected);
}

TEST(GlooHandshake, NorIsWhatOneSideSaidGoodForTheOther) {
  const GroupKey group = key_of(1);
  Ends ends = connection();
  Handshake client(group, std::move(ends.client), 2, 0);
  EXPECT_EQ(client.advance(), Result::kPending);
  const std::string hello = take(ends.server);
  EXPECT_TRUE(send_all(ends.server, hello.data(), hello.size()));
  EXPECT_EQ(client.advance(), Result::kRejected);
}

TEST(GlooHandshake, WordsThatComeInPiecesAreAwaited) {
  const GroupKey group = key_of(1);
  const auto said = record(group);
  Ends ends = connection();
  Handshake server(group, std::move(ends.server), 0);
  for (const char c : said[0]) {
    EXPECT_TRUE(send_all(ends.client, &c, 1));
    EXPECT_EQ(server.advance(), Result::kPending);
  }
  EXPECT_EQ(server.peer(), 2);
}

TEST(GlooConnecting, SaysWhyItFailed) {
  Address nowhere;
  nowhere.storage.ss_family = AF_UNIX;
  nowhere.num_bytes = sizeof(sa_family_t) + 1;  // a name of one zero, without a listener
  errno = 0;
  EXPECT_FALSE(start_connecting(nowhere));
  EXPECT_EQ(errno, ECONNREFUSED);
}

}  // namespace
}  // namespace tessera::gloo_comm
