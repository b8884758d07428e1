// What actions of a rank lose to one another when they run at the same time.
#pragma once

#include <cstdint>
#include <functional>

#include "program/program.h"

namespace tessera::host {

/// What an action keeps busy.
enum class Resource { none, compute, host, copy_in, copy_out, file_read, file_write, link };

/// Which resources of a rank are at work.
class ResourceSet {
 public:
  void add(Resource resource) { bits_ |= bit(resource); }
  bool has(Resource resource) const { return bits_ & bit(resource); }

 private:
  static uint32_t bit(Resource resource) { return 1u << static_cast<uint32_t>(resource); }
  uint32_t bits_ = 0;
};

/// What actions of one rank lose to one another when they run at the same time. Both functions are pure.
struct Sharing {
  std::function<Resource(const Program& program, const Action& action)> resource;
  /// The share of its speed that a resource keeps while all of `running` (itself among them) is at work.
  std::function<double(Resource resource, const ResourceSet& running)> speed;
};

struct Interval {
  double start = 0, end = 0;
};

}  // namespace tessera::host
