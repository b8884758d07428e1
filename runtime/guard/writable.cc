// Touching the memory would do too, but the first touch of a page is what it costs, and an arena has millions. The
// system lists what is mapped; several mappings side by side may hold the range together.

#include "guard/writable.h"

#include <fstream>
#include <sstream>
#include <string>

namespace tessera::host {

bool is_writable(const void* pointer, uint64_t num_bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(pointer), end = begin + num_bytes;
  if (end < begin) return false;
  uintptr_t next = begin;  // up to there it is
  std::ifstream maps("/proc/self/maps");
  if (!maps) return true;
  // 7f0c1a000000-7f0c1a021000 rw-p 00000000 00:00 0: sorted, without overlap
  for (std::string line; next < end && std::getline(maps, line);) {
    std::istringstream words(line);
    uintptr_t first = 0, last = 0;
    char dash = 0;
    std::string access;
    words >> std::hex >> first >> dash >> last >> access;
    if (next < first || next >= last) continue;
    if (!access.starts_with("rw")) return false;
    next = last;
  }
  return next >= end;
}

}  // namespace tessera::host
