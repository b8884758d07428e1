// Runs offload policies over a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "offload/resting.h"
#include "program/offload_policy.h"
#include "program/program.h"
#include "tessera/error.hpp"

namespace tessera::host {

/// What policies are told of the memories of a rank.
struct OffloadLimits {
  uint64_t device_bytes = UINT64_MAX;  ///< that a rank may use of its device's memory
  std::vector<tsr_place> places = {{TSR_MEMORY_HOST, 0, UINT64_MAX}};
  bool device_memory_is_host = true;  ///< so that files are read into it and written from it without a bounce buffer
  std::string host_obstacle = {};     ///< why no action can run on the host; empty: they can
};

/// A policy that finds no moves with which a step fits the device memory it may use: RESOURCE_EXHAUSTED.
class PolicyRefusal : public Error {
  using Error::Error;
};

/// Asks the policy about the program as it is, and moves what it answers (offload/movement.h). Returns the persistent
/// buffers that now rest elsewhere. Throws the policy's error with its name before it (PolicyRefusal for one of the
/// code RESOURCE_EXHAUSTED), INVALID_ARGUMENT for an answer about what the view does not have. Pure if the policy is.
std::vector<RestingBuffer> run_policy(Program& program, const OffloadPolicy& policy, const OffloadLimits& limits);

}  // namespace tessera::host
