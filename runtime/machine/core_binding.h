// Which cores a rank computes on, where several share a machine (docs/decisions/0052-cores-of-ranks.md).
#pragma once

#include <span>
#include <vector>

namespace tessera::host {

/// The cores that this process might use when it was first asked: numbers of the system, neighbors on the chip next
/// to one another. Empty where the system does not tell. [any-thread]
const std::vector<int>& cores_of_process();
/// How many cores this process might use, at least 1: no more than its control group's quota fills. Unlike the standard
/// library's count, also on a bound thread.
int num_cores();

/// Share `index` of `num_shares`: as many as `cores.size() / num_shares` or one more. Pure.
std::span<const int> share_of_cores(std::span<const int> cores, int index, int num_shares);

/// Keeps the calling thread, and threads that it starts, on these cores, until it ends on the same thread. Nothing
/// happens where there are none, or where the system refuses: it is for speed alone.
class CoreBinding {
 public:
  explicit CoreBinding(std::span<const int> cores);
  ~CoreBinding();
  CoreBinding(const CoreBinding&) = delete;
  CoreBinding& operator=(const CoreBinding&) = delete;

  bool is_bound() const { return is_bound_; }

 private:
  bool is_bound_ = false;
};

}  // namespace tessera::host
