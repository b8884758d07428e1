// Memory of the host that a plugin is shown through const pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/core.h"

namespace tessera::host {

/// Tells whether a plugin wrote where it may only read: the host would go on with what it left there, and the checks of
/// programs would compare the plugin's answer with the same. Borrows all that is added. [one thread at a time]
class ShownMemory {
 public:
  template <class T>
  void add(const T* array, uint64_t count) {
    if (count > 0) spans_.push_back(std::as_bytes(std::span(array, count)));
  }
  void add(tsr_str text) { add(text.ptr, text.len); }

  /// What is compared with later: the memory as it is now. Reads it once.
  void remember() { checksum_ = checksum(); }
  /// Throws FAILED_PRECONDITION if a byte has changed since remember(), naming the function of the plugin.
  void check_unchanged(const void* function) const;

 private:
  uint64_t checksum() const;

  std::vector<std::span<const std::byte>> spans_;
  uint64_t checksum_ = 0;
};

}  // namespace tessera::host
