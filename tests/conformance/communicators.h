// Over which communicators and group sizes the conformance suite runs. A new communicator adds its name here.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <tuple>

#include "support/comm_harness.h"

namespace tessera::testing {

inline const char* const kCommunicators[] = {
    "local-comm",
#ifdef TESSERA_HAS_GLOO
    "gloo-comm",
#endif
};
/// The same, and with the options that change how bytes travel: "plugin:option=value".
inline const char* const kTransports[] = {
    "local-comm",
#ifdef TESSERA_HAS_GLOO
    "gloo-comm",
    "gloo-comm:direct=off",
#endif
};
inline constexpr int kGroupSizes[] = {1, 2, 3, 4, 7};

/// Parameters: plugin, number of ranks.
class CommunicatorTest : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  std::string plugin() const { return std::get<0>(GetParam()); }
  int num_ranks() const { return std::get<1>(GetParam()); }
  CommSpec spec(int64_t timeout_ms = 30000) const { return {plugin(), num_ranks(), "dp.test", timeout_ms}; }
};

inline std::string case_name(const ::testing::TestParamInfo<std::tuple<const char*, int>>& info) {
  std::string name = std::string(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

/// Instantiates the tests of `suite` over `names` (kCommunicators, kTransports) and group sizes.
#define TESSERA_OVER(names, suite, sizes)                                                                         \
  INSTANTIATE_TEST_SUITE_P(                                                                                       \
      All, suite, ::testing::Combine(::testing::ValuesIn(::tessera::testing::names), ::testing::ValuesIn(sizes)), \
      ::tessera::testing::case_name)

}  // namespace tessera::testing
