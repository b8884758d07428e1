// A plugin that casts const away changes the model that the run and the checks of programs both read, so no check would
// find it. A checksum before and after the call does, for 2 % of `plan --verify`; it need not resist an attack, since
// nothing in the process does.

#include "guard/shown_memory.h"

#include <functional>
#include <string_view>

#include "guard/process_state.h"

namespace tessera::host {

uint64_t ShownMemory::checksum() const {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  uint64_t sum = 0;
  for (const auto bytes : spans_)
    sum = sum * kOdd + std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
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
