#include "base/print_error.h"

#include <unistd.h>

#include "base/concat.h"

namespace tessera::host {

void print_error(std::string_view text) {
  // One write: ranks that share a terminal do not mix their sentences.
  const std::string line = "tessera: " + printable(text) + "\n";
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // there is nobody to tell
}

}  // namespace tessera::host
