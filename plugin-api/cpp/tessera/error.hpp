// SPDX-License-Identifier: Apache-2.0
// Errors of the C++ layer: thrown inside a module, turned into a status at the ABI's edge, and back into an exception
// by the caller on the other side.
//
//     plugin:  throw Error(code, text)  ->  guard(err, domain, ...) returns the code and fills *err
//     host:    call(table->function, ...)  ->  check(status, err) throws Error(code, "[domain] text")
//
// So an error keeps its code, its rank and its sentence on the way through C. The domain is put before the text only if
// it is not there already: a plugin that says "[fsdp] ..." itself is not named twice.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "tessera/core.h"

namespace tessera {

/// The one exception type of Tessera. `what()` is one sentence: what, where, which value, what to do.
class Error : public std::runtime_error {
 public:
  /// `code` is TSR_E_*; `rank` the world rank the error is about, -1 if none.
  Error(tsr_status code, const std::string& message, int rank = -1)
      : std::runtime_error(message), code_(code), rank_(rank) {}

  tsr_status code() const noexcept { return code_; }
  int rank() const noexcept { return rank_; }

 private:
  tsr_status code_;
  int rank_;
};

inline std::string_view view(tsr_str s) noexcept {
  return s.ptr ? std::string_view(s.ptr, s.len) : std::string_view();
}
inline std::string to_string(tsr_str s) {
  return std::string(view(s));
}
/// Borrows: `s` must outlive the result.
inline tsr_str str(std::string_view s) noexcept {
  return {s.data(), s.size()};
}

/// Fills `err` (may be NULL); long texts are cut.
inline void fill_error(tsr_error* err, tsr_status code, std::string_view domain, std::string_view message,
                       int rank = -1) noexcept {
  if (!err) return;
  *err = {};
  err->code = code;
  err->rank = rank;
  std::memcpy(err->domain, domain.data(), std::min(domain.size(), sizeof err->domain - 1));
  std::memcpy(err->message, message.data(), std::min(message.size(), sizeof err->message - 1));
}

/// The text of an exception: what(), and what to do when the system grants no thread.
inline std::string sentence_of(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (!system || system->code() != std::errc::resource_unavailable_try_again) return error.what();
  return "cannot start a thread: " + system->code().message() +
         "; start fewer ranks, or raise the limit on threads (ulimit -u, the container's pids limit)";
}

/// Runs `f` at the ABI's edge: returns TSR_OK, or the status of what it threw with `err` filled. Never throws. No
/// memory is RESOURCE_EXHAUSTED, in a text that needs none; any other exception is INTERNAL.
template <class F>
tsr_status guard(tsr_error* err, std::string_view domain, F&& f) noexcept {
  try {
    std::forward<F>(f)();
    return TSR_OK;
  } catch (const Error& e) {
    fill_error(err, e.code(), domain, e.what(), e.rank());
    return e.code();
  } catch (const std::bad_alloc&) {
    fill_error(err, TSR_E_RESOURCE_EXHAUSTED, domain, "out of memory");
    return TSR_E_RESOURCE_EXHAUSTED;
  } catch (const std::exception& e) {
    fill_error(err, TSR_E_INTERNAL, domain, sentence_of(e));
    return TSR_E_INTERNAL;
  } catch (...) {
    fill_error(err, TSR_E_INTERNAL, domain, "an exception that is not a std::exception");
    return TSR_E_INTERNAL;
  }
}

/// Throws INVALID_ARGUMENT for what this minor of the ABI cannot mean: `what` the struct `name` ("tsr_action") has.
[[noreturn]] inline void refuse_unknown(std::string_view name, const std::string& what) {
  throw Error(TSR_E_INVALID_ARGUMENT, std::string(name) + " has " + what + "; ABI " + std::to_string(TSR_ABI_MAJOR) +
                                          "." + std::to_string(TSR_ABI_MINOR) + " gives it no meaning");
}
/// For a reserved word that is not 0.
inline void check_reserved(uint64_t word, std::string_view name) {
  if (word != 0) refuse_unknown(name, "a spare or reserved word that is not 0");
}
/// For flags other than `known`.
inline void check_flags(uint32_t flags, uint32_t known, std::string_view name) {
  if (flags & ~known) refuse_unknown(name, "the unknown flags " + std::to_string(flags & ~known));
}
/// For a FROZEN struct with a spare or reserved word that is not 0.
template <class Struct>
void check_spare(const Struct& given, std::string_view name) {
  for (const uint64_t word : given.spare)
    check_reserved(word, name);
  if constexpr (requires { given.reserved; }) check_reserved(given.reserved, name);
}

/// Throws what a call across the ABI reported; nothing for TSR_OK.
inline void check(tsr_status status, const tsr_error& err) {
  if (status == TSR_OK) return;
  const std::string domain(err.domain, strnlen(err.domain, sizeof err.domain));
  std::string text(err.message, strnlen(err.message, sizeof err.message));
  if (text.empty()) text = "status " + std::to_string(status) + " without a message";
  const std::string prefix = "[" + domain + "] ";
  if (!domain.empty() && text.compare(0, prefix.size(), prefix) != 0) text = prefix + text;
  throw Error(status, text, err.rank);
}

/// Calls an ABI function whose last parameter is tsr_error*, and throws what it reports.
template <class F, class... Args>
void call(F function, Args&&... args) {
  tsr_error err{};
  check(function(std::forward<Args>(args)..., &err), err);
}

}  // namespace tessera
