// Lines from signal handlers, and from processes in which little is allowed.
#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <initializer_list>
#include <string_view>

#include "base/terminal.h"

namespace tessera::host {

/// Writes the texts to standard error in one write, replacing a terminal's status line. Safe in signal handlers.
inline void write_line(std::initializer_list<std::string_view> texts) noexcept {
  constexpr size_t kMost = 24;
  const std::string_view clear = clear_line();
  iovec parts[kMost] = {{const_cast<char*>(clear.data()), clear.size()}};
  size_t num_parts = 1;
  for (const std::string_view text : texts)
    if (num_parts < kMost) parts[num_parts++] = {const_cast<char*>(text.data()), text.size()};
  if (::writev(STDERR_FILENO, parts, static_cast<int>(num_parts)) < 0) return;
}

}  // namespace tessera::host
