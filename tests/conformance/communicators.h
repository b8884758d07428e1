// Over which communicators and group sizes the conformance suite runs. A new communicator adds its name here.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
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
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Instantiates the tests of `suite` over all communicators and the given group sizes.
#define TESSERA_OVER_COMMUNICATORS(suite, ...)                                                                       \
  INSTANTIATE_TEST_SUITE_P(                                                                                          \
      All, suite,                                                                                                    \
      ::testing::Combine(::testing::ValuesIn(::tessera::testing::kCommunicators), ::testing::ValuesIn(__VA_ARGS__)), \
      ::tessera::testing::case_name)

}  // namespace tessera::testing
