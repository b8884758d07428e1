// Whether the user has been told why this process ends by a signal.
#pragma once

#include <atomic>

namespace tessera::host {

inline std::atomic<bool> ending_is_told_here{false};

/// Set when a crash has been named, or a user's signal, before the process dies of it. Where a supervisor asks
/// (guard/supervisor.h), in memory that it shares.
inline std::atomic<bool>* ending_is_told = &ending_is_told_here;

}  // namespace tessera::host
