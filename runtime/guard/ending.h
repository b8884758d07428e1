// Whether the host ends the process by itself.
#pragma once

#include <atomic>

namespace tessera::host {

/// Set before _exit() by the host, which may be in a plugin's call then; one that a plugin calls is that plugin's.
inline std::atomic<bool> host_ends_process{false};

}  // namespace tessera::host
