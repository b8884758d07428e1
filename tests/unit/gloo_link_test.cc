// The frames that the members of a group exchange during the bootstrap.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>

#include "gloo-comm/connections/link.h"
#include "tessera/error.hpp"

namespace tessera::gloo_comm {
namespace {

const Member kMember{"gloo-comm", "dp", 0, 3, {0, 1, 2}, 1000};

/// Member 0 of three, and the other ends of its connections.
class LinksOfThree {
 public:
  LinksOfThree() {
    for (const int peer : {1, 2}) {
      int ends[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) throw std::bad_alloc();
      peers_[static_cast<size_t>(peer)] = Descriptor(ends[0]);
      links.add(peer, Descriptor(ends[1]));
    }
  }

  void send(int peer, int32_t code, const std::string& text) {
    Frame frame{};
    frame.kind = Frame::kFault;
    frame.code = code;
    frame.world_rank = 2;
    text.copy(frame.text, sizeof frame.text - 1);
    ASSERT_TRUE(send_all(end_of(peer), &frame, sizeof frame));
  }
  void listen() {
    Poller poller;
    links.watch(poller);
    poller.wait(1000);
  }
  Frame received_by(int peer) {
    Frame frame{};
    Inbox inbox;
    EXPECT_EQ(inbox.receive(end_of(peer), &frame, sizeof frame), Inbox::Result::kComplete);
    return frame;
  }

 private:
  Descriptor& end_of(int peer) { return peers_[static_cast<size_t>(peer)]; }

  CmaReader cma_{false, 3};
  Descriptor peers_[3];

 public:
  Links links{kMember, cma_};
};

TEST(GlooLinks, AFaultThatAPeerToldIsPassedOnInItsWords) {
  LinksOfThree group;
  group.send(1, TSR_E_INVALID_ARGUMENT, "[gloo-comm] dp rank 1: no");
  try {
    group.listen();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[gloo-comm] dp rank 0: create stopped: rank 1 reports: [gloo-comm] dp rank 1: no");
    group.links.announce(error);
  }
  const Frame heard = group.received_by(2);
  EXPECT_EQ(heard.code, TSR_E_INVALID_ARGUMENT);
  EXPECT_EQ(heard.world_rank, 2);
  EXPECT_STREQ(heard.text, "[gloo-comm] dp rank 1: no");
}

TEST(GlooLinks, WhatAPeerHadFromTheStoreIsNotThatPeersReport) {
  LinksOfThree group;
  group.send(1, TSR_E_ABORTED, "rank 2 (process 7 on host) failed: no memory");
  try {
    group.listen();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[gloo-comm] dp rank 0: create stopped: rank 2 (process 7 on host) failed: no memory");
  }
}

TEST(GlooLinks, ATimeOutThatAPeerToldIsToo) {
  LinksOfThree group;
  group.send(1, TSR_E_DEADLINE, "[gloo-comm] dp rank 1: create timed out");
  group.listen();
  ASSERT_TRUE(group.links.is_time_up());
  group.links.announce(group.links.timeout());
  EXPECT_STREQ(group.received_by(2).text, "[gloo-comm] dp rank 1: create timed out");
}

TEST(GlooLinks, WhatAMemberFoundItselfIsSaidInItsOwn) {
  LinksOfThree group;
  group.send(1, TSR_E_DEADLINE, "[gloo-comm] dp rank 1: create timed out");
  group.listen();
  group.links.announce(Error(TSR_E_DEADLINE, "mine", 2));
  EXPECT_STREQ(group.received_by(2).text, "mine");
}

}  // namespace
}  // namespace tessera::gloo_comm
