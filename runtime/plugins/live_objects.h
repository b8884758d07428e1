// The objects of plugins that are in use.
#pragma once

#include <mutex>
#include <set>

namespace tessera::host {

/// Of one kind, in this process. Two ranks, or two uses of one rank, that share a stream, an event or a communicator
/// would race without a word. [any-thread]
class LiveObjects {
 public:
  /// Throws INTERNAL for one that is in use; `function` is the plugin's that returned it.
  void add(const void* object, const void* function);
  void remove(const void* object) noexcept;

 private:
  std::mutex mutex_;
  std::set<const void*> all_;  // under mutex_
};

/// One for each kind of object.
template <class Object>
LiveObjects& live_objects() {
  static LiveObjects all;
  return all;
}

}  // namespace tessera::host
