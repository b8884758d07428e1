// A process below which a run with plugins from elsewhere takes place.
#pragma once

#include <cstdint>
#include <optional>

namespace tessera::host {

/// Forks. In the child, where the run takes place, it returns nothing; it must set Ending::has_finished when all is
/// done. In the parent it waits for the child, passes signals on to it, and returns the exit code for the user:
///
///     the child                            the parent
///     exits with 0, and has set it         returns 0
///     exits otherwise                      returns the code, and 1 for 0; says that a plugin has ended the run if the
///                                          child has not said why (base/ending.h)
///     is killed by a signal                dies of the same one; says so if it has not passed it on, and the child has
///                                          not said why (base/ending.h)
///     is stopped for `stopped_ms`          says so and kills it; while the parent is stopped too, no time passes
///
/// The child dies with its parent, whatever ends that. Where no process can be started it returns nothing, and the run
/// is not supervised. Call it before threads exist. [control-thread]
std::optional<int> supervise(int64_t stopped_ms = 300'000);

/// In the child.
bool is_supervised();

/// The process that has started the program: the parent, or in a child of supervise() the parent's. A foreign
/// launcher's ranks have it in common (read_rank_environment). 0 if it has died.
int starter_of_program();

}  // namespace tessera::host
