// What a plugin must leave as it was: state of the process and of the calling thread that everything else relies on.
#pragma once

#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <array>
#include <locale>
#include <string>

#include "guard/plugin_calls.h"

namespace tessera::host {

/// The state when it was made:
///   - how this thread computes: rounding, and whether denormals are flushed to zero, which changes results silently
///   - what signals do
///   - the locale, in which numbers are written and read
///   - the current folder
///   - which files are standard input, output and error
/// Takes and compares in about 20 us. [control-thread]
class ProcessState {
 public:
  ProcessState();
  ~ProcessState();
  ProcessState(const ProcessState&) = delete;
  ProcessState& operator=(const ProcessState&) = delete;

  /// Restores what has changed; what that was and what its author should do, as the end of a sentence: "changes the
  /// locale; ...". Empty if nothing has.
  std::string restore();

 private:
  std::string restore_computing();
  std::string restore_signals();
  std::string restore_locale();
  std::string restore_folder();
  std::string restore_files();

  static constexpr int kNumFiles = 3;
  uint64_t computing_;
  std::array<struct sigaction, NSIG> signals_{};
  std::string c_locale_;
  std::locale locale_;
  std::string folder_;  ///< its path; empty if it has none
  struct stat folder_status_ {};
  std::array<int, kNumFiles> files_;  ///< copies, or -1
  std::array<struct stat, kNumFiles> file_status_{};
};

/// "the plugin fsdp (...) in its function create CHANGE".
std::string change_text(const void* function, const std::string& change);

/// made_by(), or with `may_be_null` call(), for a function that makes a plugin's object: throws FAILED_PRECONDITION,
/// naming the function, if it has changed the state of the process, which is then restored. The object is not
/// destroyed.
template <class T, class... P, class... A>
T* create_by(bool may_be_null, tsr_status (*function)(P...), A&&... args) {
  ProcessState before;
  T* object = nullptr;
  call(function, std::forward<A>(args)..., &object);
  if (const std::string change = before.restore(); !change.empty())
    throw Error(TSR_E_FAILED_PRECONDITION, change_text(address_of(function), change));
  if (!may_be_null) check_handle(object, address_of(function));
  return object;
}

}  // namespace tessera::host
