// Summaries of traces as text.
#pragma once

#include <string>

#include "trace/summary.h"

namespace tessera::host {

/// What `tessera trace` prints.
std::string summary_text(const Trace& trace, const TraceSummary& summary);
/// For the end of a run: "backward 55.1 %, forward 28.0 %, others 16.9 %", the step's kinds of action with their share
/// of the time in which any action ran, at most `max_kinds` of them.
std::string kinds_text(const TraceSummary& summary, size_t max_kinds);
/// "12.300 ms a step: 8.100 ms hidden by compute, 4.200 ms exposed"; empty where nothing of it ran.
std::string overlap_text(const Overlap& overlap);

/// 0.0123 -> "12.300".
std::string milliseconds(double seconds);

}  // namespace tessera::host
