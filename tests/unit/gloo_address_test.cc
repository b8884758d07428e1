// Where gloo-comm listens, and what it says when it cannot.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

#include "gloo-comm/address.h"
#include "tessera/error.hpp"

namespace tessera::gloo_comm {
namespace {

std::string text_of(const ::gloo::transport::tcp::attr& attr) {
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&attr.ai_addr)->sin_addr, text, sizeof text);
  return text;
}

TEST(GlooAddress, LocalRanksListenOnLoopback) {
  const auto address = listen_address(true, "");
  EXPECT_EQ(address.ai_family, AF_INET);
  EXPECT_EQ(text_of(address), "127.0.0.1");
}

TEST(GlooAddress, AnInterfaceIsTakenWhetherRanksAreLocalOrNot) {
  EXPECT_EQ(text_of(listen_address(true, "lo")), "127.0.0.1");
  EXPECT_EQ(text_of(listen_address(false, "lo")), "127.0.0.1");
}

TEST(GlooAddress, AnUnknownInterfaceIsRefusedWithTheListOfThoseThereAre) {
  try {
    listen_address(true, "eth77");
    FAIL() << "took an interface that is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), TSR_E_NOT_FOUND);
    EXPECT_NE(std::string(error.what()).find("\"eth77\" has an address; there are"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("lo"), std::string::npos) << error.what();
  }
}

TEST(GlooAddress, TheHostNamesAddressIsNoLoopbackOrTheErrorSaysWhatToDo) {
  try {
    EXPECT_NE(text_of(listen_address(false, "")).substr(0, 4), "127.");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), TSR_E_FAILED_PRECONDITION);
    EXPECT_NE(std::string(error.what()).find("--gloo.interface"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tessera::gloo_comm
