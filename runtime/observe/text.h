// Building one line of text from parts.
#pragma once

#include <sstream>
#include <string>

namespace tessera {

/// The parts one after the other, as `<<` prints them: concat("rank ", 3, " of ", 4).
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace tessera
