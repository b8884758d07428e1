// A plugin that casts const away changes the model that the run and the checks of programs both read, so no check would
// find it. A checksum before and after the call does, for 2 % of `plan --verify`; it need not resist an attack, since
// nothing in the process does.

#include "guard/shown_memory.h"

#include <cstring>

#include "guard/process_state.h"

namespace tessera::host {

// The sum of all words, each times an odd number of its own: any change of one word changes it, and so do, but for rare
// differences, changes of several. A product does not wait for the one before it, as in a chain of hashes.
uint64_t ShownMemory::checksum() const {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  uint64_t sum = 0, factor = 1;
  const auto add = [&](uint64_t word) {
    word ^= word >> 32;  // else factors that differ by a power of two would not tell high bytes apart
    sum += word * (factor += 2 * kOdd);
  };
  for (std::span<const std::byte> bytes : spans_) {
    uint64_t word = 0;
    for (; bytes.size() >= sizeof word; bytes = bytes.subspan(sizeof word)) {
      std::memcpy(&word, bytes.data(), sizeof word);
      add(word);
    }
    if (bytes.empty()) continue;
    word = 0;
    std::memcpy(&word, bytes.data(), bytes.size());
    add(word);
  }
  return sum;
}

void ShownMemory::check_unchanged(const void* function) const {
  if (checksum() != checksum_)
    throw_change(function,
                 "writes through a const pointer to what the host shows it; a plugin changes a program "
                 "only with the functions of the table it is lent",
                 "");
}

}  // namespace tessera::host
