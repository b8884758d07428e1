// Wrong usage: an error that the user can correct.
#pragma once

#include <string>

#include "tessera/error.hpp"

namespace tessera::host {

/// Ends the command with exit code 2; any other Error ends it with 1.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message, tsr_status code = TSR_E_INVALID_ARGUMENT) : Error(code, message) {}
};

/// Calls `plan`, and turns the refusal of a strategy, a plugin or a check into a UsageError.
template <class Plan>
auto as_usage(Plan&& plan) {
  try {
    return plan();
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    const tsr_status code = error.code();
    if (code != TSR_E_INVALID_ARGUMENT && code != TSR_E_UNSUPPORTED && code != TSR_E_NOT_FOUND) throw;
    throw UsageError(error.what(), code);
  }
}

}  // namespace tessera::host
