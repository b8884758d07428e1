// A communicator for tests of the host: a group of which one member is there, whose collectives do what a test says.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/communicator.h"

namespace tessera::testing {

/// What the collectives of all communicators of one test do, and what they were given.
struct Script {
  /// In place of each collective, on its stream; throws to fail. What a rank sends is what it receives.
  std::function<void()> on_run = [] {};
  std::atomic<int> num_runs{0};
  std::vector<uint64_t> sequences;   ///< of the collectives that were submitted
  std::vector<std::string> aborted;  ///< names of the communicators, in the order in which abort() has cut them
  /// Ranks that a sum of squares counts: those of a group of two, of which the other sends zeros and its arrival.
  uint8_t num_arrivals = 2;

  /// For on_run: a collective that does not end by itself.
  void wait_for_abort();
  void abort();

 private:
  std::mutex mutex_;
  std::condition_variable aborted_;
  bool is_aborted_ = false;
};

/// Communicators of `script`, until the next call. Their work is one host function each, which may be captured.
const tsr_communicator_interface& scripted_communicator(Script& script);

}  // namespace tessera::testing
