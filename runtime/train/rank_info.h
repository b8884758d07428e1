// What a rank knows of itself and of its job.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "launch/key_value_store.h"

namespace tessera::host {

/// A rank's place in the job.
struct RankInfo {
  int rank = 0;
  int local_rank = 0;
  int num_local_ranks = 1;
  bool is_local = true;  ///< all ranks are on this machine
  std::shared_ptr<KeyValueStore> store;
  std::function<bool()> cancelled = [] { return false; };
  std::string store_host = {};  ///< where the store is; empty: in this process
  /// By this process or our launcher, with the same cores; another launcher may have divided them.
  bool started_together = false;
  /// Tells the other ranks why this one is going to end, which wakes all that wait in the store. The first call counts.
  std::function<void(const std::exception&)> tell_failure = [](const std::exception&) {};
};

}  // namespace tessera::host
