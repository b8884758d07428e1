// Reads what write_trace.h writes.
#pragma once

#include <string>
#include <string_view>

#include "trace/trace.h"

namespace tessera::host {

/// `bytes`: of a file, compressed or not; `where` names it in messages. Events of others in it are left out. Throws
/// INVALID_ARGUMENT for what is not a whole trace as we write it, with what is wrong and, of an event, its number.
Trace parse_trace(std::string_view bytes, const std::string& where);
/// Throws NOT_FOUND, UNAVAILABLE and INVALID_ARGUMENT, naming the file and what is wrong with it.
Trace read_trace(const std::string& path);

}  // namespace tessera::host
