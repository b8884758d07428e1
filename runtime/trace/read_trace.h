// Reads what write_trace.h writes.
#pragma once

#include <string>
#include <string_view>

#include "trace/trace.h"

namespace tessera::host {

/// `bytes`: of a file, compressed or not; `where` names it in messages. Events of other programs are skipped. Throws
/// INVALID_ARGUMENT for anything but a complete trace that tessera wrote, with the fault and, for an event, its number.
Trace parse_trace(std::string_view bytes, const std::string& where);
/// Throws NOT_FOUND, UNAVAILABLE and INVALID_ARGUMENT, naming the file, what is wrong with it, and the flag where it
/// cannot be read ("--trace"; empty: no flag gave the path).
Trace read_trace(const std::string& path, std::string_view flag = "");

}  // namespace tessera::host
