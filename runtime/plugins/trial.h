// A plugin's first load happens in a child process, so that one that crashes, exits or never returns ends only that; so
// does the first call of one that no flag names.
#pragma once

#include <cstdint>
#include <functional>

namespace tessera::host {

inline constexpr int64_t kTrialMs = 10'000;

/// The part of a trial that is about to run: "its constructors (dlopen)".
using TrialStep = std::function<void(const char* step)>;

/// Runs `load` in a child process, and throws UsageError, the end of a sentence ("crashed in its function ..."), when
/// the child is killed by a signal, exits before the end of `load`, or takes longer than kTrialMs. Exceptions of `load`
/// are ignored: it is run again in this process, and throws them here. `load` calls its argument before each step.
/// What the child writes to standard output and standard error is lost. [control-thread]
void try_in_child(const std::function<void(const TrialStep&)>& load);

}  // namespace tessera::host
