// Errors of communicators under test.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
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

/// Whether the text has that number, in whatever words.
inline bool has_number(const Error& error, int number) {
  const std::string text = error.what(), digits = std::to_string(number);
  const auto is_digit = [&](size_t at) {
    return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at]));
  };
  for (size_t at = text.find(digits); at != text.npos; at = text.find(digits, at + 1))
    if (!is_digit(at - 1) && !is_digit(at + digits.size())) return true;
  return false;
}
/// Whether the error is about that rank, by its number or in its text.
inline bool names_rank(const Error& error, int rank) {
  return error.rank() == rank || has_number(error, rank);
}

inline std::string rank_text(int rank) {
  return "rank " + std::to_string(rank);
}

}  // namespace tessera::testing
