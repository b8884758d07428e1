// How far streams have come, by host functions on them.
#pragma once

#include <atomic>
#include <cstdint>

#include "guard/floating_point.h"
#include "tessera/error.hpp"

namespace tessera::host {

/// A counter that streams count up when they come to a place. The thread of a CPU's stream runs kernels, and what
/// communicators have put between them, which no guard encloses: so it is also held to the way in which the issuing
/// thread computes, and fails its stream where that has changed.
struct Arrivals {
  std::atomic<uint64_t> count{0};
  uint64_t computing = 0;  ///< of the issuing thread
  bool compares = true;

  /// From 0; nothing is in flight.
  void begin() {
    count = 0;
    computing = computing_now();
  }

  /// A host function. `self` is the Arrivals.
  static tsr_status arrive(void* self, tsr_error* err) noexcept {
    Arrivals& arrivals = *static_cast<Arrivals*>(self);
    arrivals.count.fetch_add(1, std::memory_order_release);
    if (!arrivals.compares || computing_now() == arrivals.computing) return TSR_OK;
    compute_as(arrivals.computing);
    fill_error(err, TSR_E_FAILED_PRECONDITION, "host",
               "work of a plugin on a stream (a kernel, or a function that a communicator has enqueued) changes how "
               "floating-point numbers are computed there, and with that the results of all that follows");
    return TSR_E_FAILED_PRECONDITION;
  }
};

}  // namespace tessera::host
