// Summaries of traces as text.
#pragma once

#include <string>

#include "trace/summary.h"

namespace tessera::host {

/// What `tessera trace` prints.
std::string summary_text(const Trace& trace, const TraceSummary& summary);
/// In a sentence, for the end of a run: the step's kinds of action with their share of the time in which any
/// action ran, at most `max_kinds` of them.
std::string kinds_sentence(const TraceSummary& summary, size_t max_kinds);
/// "communication 12.3 ms a step: 8.1 ms hidden by compute, 4.2 ms exposed"; empty without communication.
std::string communication_sentence(const TraceSummary& summary);

/// 0.0123 -> "12.300".
std::string milliseconds(double seconds);

}  // namespace tessera::host
