// Files that grow during a run, written by a thread of their own.
#pragma once

#include <pthread.h>

#include <chrono>
#include <memory>
#include <string>

#include "base/log.h"

namespace tessera::host {

/// Appends to files without ever blocking the caller: if the disk is full or does not answer, or a file is removed,
/// parts of these files are lost, with a warning; the run is unaffected. Each part is written whole or not at all, so a
/// file never has half a line.
class BackgroundWriter {
 public:
  /// `what` begins the warnings: "--out runs/a". `log` must not write to this writer. Throws RESOURCE_EXHAUSTED when
  /// the system starts no thread. `patience`: how long the destructor waits.
  BackgroundWriter(std::string what, Log log, std::chrono::milliseconds patience = std::chrono::seconds(10));
  /// Waits for a limited time until everything is written; what is not written by then is lost, with a warning.
  ~BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  /// Opens a file to append to, and ends its last line if that was cut. Returns its number. When it cannot be opened,
  /// that is the warning, and its parts are lost.
  int open(const std::string& path);
  /// Warns of a file that the caller could not write itself, unless there was a warning before.
  void warn(const std::string& problem);
  /// Queues the part; drops it, which is reported once, when more than 64 MiB wait. [any-thread]
  void append(int file, std::string part);

 private:
  struct State;
  static void write_until_stopped(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;  // the thread's too: it may outlive this object
  const std::chrono::milliseconds patience_;
  pthread_t thread_{};
};

}  // namespace tessera::host
