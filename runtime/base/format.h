// Text with numbers in columns.
#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace tessera::host {

/// Like printf, up to 255 characters.
template <class... Args>
std::string format(const char* pattern, Args... args) {
  std::array<char, 256> text;
  std::snprintf(text.data(), text.size(), pattern, args...);
  return text.data();
}

}  // namespace tessera::host
