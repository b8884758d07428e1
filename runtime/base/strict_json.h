// Strict JSON, for files from elsewhere: what is ambiguous is refused.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tessera::host {

/// Parses `text`, which must be one JSON object in UTF-8, without duplicate keys, zero bytes or nesting deeper than
/// `max_depth` (the object itself is depth 1). Throws INVALID_ARGUMENT; `where` names the text in the message.
nlohmann::json parse_strict_json(std::string_view text, const std::string& where, int max_depth);

}  // namespace tessera::host
