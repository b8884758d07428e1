// A process below which a run with plugins from elsewhere takes place.
#pragma once

#include <cstdint>
#include <optional>

namespace tessera::host {

/// Forks. In the child, where the run takes place, it returns nothing; it must end with kRankFinished when all is done.
/// In the parent it waits for the child, passes signals on to it, and returns the exit code for the user:
///
///     the child                            the parent
///     exits with kRankFinished             returns 0
///     exits with 0                         says that something has ended the run, and returns 1
///     exits with another code              returns it
///     is killed by a signal                dies of the same one; says so if no user sends such a signal, and the child
///                                          has not said it (base/ending_is_told.h)
///     is stopped for `stopped_ms`          says so and kills it; while the parent is stopped too, no time passes
///
/// The child dies with its parent, whatever ends that. Where no process can be started it returns nothing, and the run
/// is not supervised. Call it before threads exist. [control-thread]
std::optional<int> supervise(int64_t stopped_ms = 300'000);

/// In the child.
bool is_supervised();

}  // namespace tessera::host
