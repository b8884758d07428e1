// Errors of communicators under test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "support/patience.h"
#include "tessera/error.hpp"

namespace tessera::testing {

/// Runs `action`, which must throw, and not only when its time-out ends; returns what it threw.
template <class Action>
Error caught(Action&& action) {
  const auto start = std::chrono::steady_clock::now();
  try {
    action();
  } catch (const Error& error) {
    EXPECT_LT(std::chrono::steady_clock::now() - start, kPatience) << error.what();
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(TSR_OK, "");
}

inline void expect_parts(const Error& error, tsr_status code, const std::vector<std::string>& parts) {
  EXPECT_EQ(error.code(), code) << error.what();
  for (const std::string& part : parts)
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << "'" << part << "' is missing in: " << error.what();
}

inline std::string rank_text(int rank) {
  return "rank " + std::to_string(rank);
}

}  // namespace tessera::testing
