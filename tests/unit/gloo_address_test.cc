// The address on which gloo-comm listens, and its errors when there is none.
#include <gtest/gtest.h>

#include "gloo-comm/connections/listen_address.h"
#include "support/memory_kv.h"
#include "tessera/error.hpp"

namespace tessera::gloo_comm {
namespace {

/// Rank 0 of a group of two chooses, where the other one listens at `others` ("": it has not come) in its network.
std::string chosen(const ListenOptions& options, const std::string& others = "", int num_ranks = 2,
                   const Network& network = this_network()) {
  testing::MemoryKv memory;
  const tsr_host host = memory.host();
  const KeyValue store(&host);
  const Member member{"gloo-comm", "dp", 0, num_ranks, {0, 1}, 1000};
  if (!others.empty()) store.set("comm/route/1", to_bytes(AddressOffer{*address_towards(others), network}));
  return choose_address(options, member, store, "comm", Deadline(1000), CancelFlag()).text();
}

std::string error_of(const ListenOptions& options, int num_ranks = 2) {
  try {
    return "none: " + chosen(options, "", num_ranks);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), TSR_E_NOT_FOUND);
    return error.what();
  }
}

TEST(GlooAddress, LocalRanksListenOnLoopback) {
  EXPECT_EQ(chosen({true, "", ""}), "127.0.0.1");
  EXPECT_EQ(chosen({true, "", "198.51.100.7"}), "127.0.0.1");
}

TEST(GlooAddress, AnInterfaceIsTakenWhetherRanksAreLocalOrNot) {
  EXPECT_EQ(chosen({true, "lo", ""}), "127.0.0.1");
  EXPECT_EQ(chosen({false, "lo", ""}, "127.0.0.1"), "127.0.0.1");
}

TEST(GlooAddress, AnUnknownInterfaceIsRefusedWithTheListOfThoseThereAre) {
  const std::string text = error_of({true, "eth77", ""});
  EXPECT_NE(text.find("--gloo.interface: no network interface \"eth77\" has an address on this machine; it has"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("lo"), std::string::npos) << text;
}

TEST(GlooAddress, TheLoopbackInterfaceIsRefusedWhenAMemberIsOnAnotherMachine) {
  Network other = this_network();
  ++other.network_namespace;
  try {
    ADD_FAILURE() << chosen({false, "lo", ""}, "127.0.0.1", 2, other);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), TSR_E_INVALID_ARGUMENT);
    EXPECT_EQ(error.rank(), 0);
    EXPECT_NE(
        std::string(error.what())
            .find("--gloo.interface: the addresses of \"lo\" can be reached from this machine only, and rank 1 is on "
                  "another one; name an interface that it can reach"),
        std::string::npos)
        << error.what();
  }
}

TEST(GlooAddress, AGroupOfOneRefusesItToo) {
  EXPECT_NE(error_of({true, "eth77", ""}, 1).find("eth77"), std::string::npos);
  EXPECT_EQ(chosen({false, "", "no.such.host.invalid"}, "", 1), "127.0.0.1");
}

TEST(GlooAddress, AStoreOnThisMachineIsNoHelpUnlessAllAreThere) {
  EXPECT_EQ(chosen({false, "", "127.0.0.1"}, "127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(chosen({false, "", "localhost"}, "127.0.0.2"), "127.0.0.1");
}

TEST(GlooAddress, TheRouteToTheStoreDecides) {
  const auto route = address_towards(std::string("198.51.100.7"));
  if (!route) GTEST_SKIP() << "needs a route to other machines";
  EXPECT_EQ(chosen({false, "", "198.51.100.7"}), route->text());
  EXPECT_EQ(chosen({false, "", "127.0.1.1"}, "198.51.100.7"), route->text());
}

}  // namespace
}  // namespace tessera::gloo_comm
