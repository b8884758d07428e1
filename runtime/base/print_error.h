// The last words of a command.
#pragma once

#include <string_view>

namespace tessera::host {

/// "tessera: <text>" on stderr, printable, as one write: lines of several processes do not mix. [any-thread]
void print_error(std::string_view text);

}  // namespace tessera::host
