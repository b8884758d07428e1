// Runs with the plugins of tests/abi/bad_plugins that harm their process. faults.h there lists what they do; an
// environment variable selects it.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "e2e/cli.h"
#include "support/paths.h"

namespace tessera::testing {

using Parts = std::vector<std::string>;

inline const std::string kHostile = binary_dir("tests/bad_plugins/hostile.so");

inline constexpr const char* kNoFlag = "--log-level=error";

inline std::unique_ptr<Command> start(const Parts& arguments, const std::string& fault) {
  const std::map<std::string, std::string> environment = {{"TESSERA_TEST_FAULT", fault},
                                                          {"ASAN_OPTIONS", "detect_leaks=0:handle_abort=1"}};
  return std::make_unique<Command>(tessera(arguments), environment);
}
inline CommandResult run(const Parts& arguments, const std::string& fault) {
  return start(arguments, fault)->wait();
}

/// The run failed, with each part in its message.
inline void expect_named(const CommandResult& run, const Parts& parts, int exit_code = -1) {
  EXPECT_NE(run.exit_code, 0) << run.out << run.err;
  if (exit_code >= 0) {
    EXPECT_EQ(run.exit_code, exit_code) << run.err;
  }
  for (const std::string& part : parts)
    EXPECT_NE(run.err.find(part), std::string::npos) << "'" << part << "' is missing in\n" << run.err;
}

/// The signal's exit code, which a sanitizer replaces by its own.
inline int by_signal(int signal) {
#ifdef TESSERA_IS_SANITIZED
  return static_cast<void>(signal), -1;
#else
  return 128 + signal;
#endif
}

inline CommandResult info(const std::string& fault) {
  return run({"plugins", "info", kHostile}, fault);
}

inline Parts train_with(Parts more) {
  Parts all = train({"--steps=2"});
  all.erase(all.begin());
  all.insert(all.end(), more.begin(), more.end());
  return all;
}
/// Two ranks in two threads.
inline CommandResult train_threads(const std::string& fault, const Parts& more = {}) {
  Parts flags = {"--nproc=2", "--comm=local", std::string("--strategy=") + kHostile};
  flags.insert(flags.end(), more.begin(), more.end());
  return run(train_with(flags), fault);
}
/// The same with another communicator, which may be one that wraps the repository's; `flag` may give the device or the
/// strategy of that kind.
inline std::unique_ptr<Command> start_wrapped(const std::string& fault, const std::string& flag,
                                              const std::string& comm, int64_t start_ms = kPatienceMs,
                                              int64_t step_ms = kPatienceMs) {
  Parts flags = {"--nproc=2",
                 "--comm=" + comm,
                 "--plugin-dir=" + binary_dir("tests/bad_plugins"),
                 flag,
                 "--start-timeout-ms=" + std::to_string(start_ms),
                 "--timeout-ms=" + std::to_string(step_ms)};
  if (!flag.starts_with("--strategy")) flags.push_back("--strategy=ddp");
  return start(train_with(flags), fault);
}
inline CommandResult train_wrapped(const std::string& fault, const std::string& flag,
                                   const std::string& comm = "local") {
  return start_wrapped(fault, flag, comm)->wait();
}

}  // namespace tessera::testing
