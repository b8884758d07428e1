// The files page.css and page.js, as texts.
#pragma once

#include <string_view>

namespace tessera::host {

extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace tessera::host
