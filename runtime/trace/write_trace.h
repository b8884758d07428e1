// Traces as files: Chrome's trace events, which Perfetto, chrome://tracing and `tessera trace` read.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "trace/trace.h"

namespace tessera::host {

/// The events of the actions of one rank, one per line, separated by commas: a process is a rank, a thread is a stream.
/// Times are in microseconds since `origin_ns`. Empty without actions.
std::string trace_events(const Trace& trace, int64_t origin_ns);

/// A whole file of such events, of one rank each; `trace` without its actions says what they are of.
std::string trace_file(const Trace& trace, std::span<const std::string> events_of_ranks);

/// Whether a file with this beginning is our trace, compressed or not.
bool begins_like_trace(std::string_view begin);

}  // namespace tessera::host
