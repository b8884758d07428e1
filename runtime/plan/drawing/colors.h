// The colors of a drawn step: one for each kind of action.
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera::host {

struct Color {
  std::string_view name, css_class, fill;
  bool operator==(const Color& other) const { return css_class == other.css_class; }
};

inline constexpr Color kIdle = {"idle compute", "i", "#f6e3e3"}, kLiveMemory = {"live memory", "m", "#b9c6d6"};

/// Of actions of this kind (TSR_ACTION_*).
const Color& color_of(uint32_t kind);
/// By the name of the kind, which traces have; null for one that does not exist.
const Color* color_of(std::string_view kind);

}  // namespace tessera::host
