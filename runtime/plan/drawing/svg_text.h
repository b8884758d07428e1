// Pieces of SVG.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::host {

/// With a tool tip; at least 0.2 pixels wide, so that actions without duration stay visible.
std::string svg_rectangle(std::string_view css_class, double x, double y, double width, double height,
                          const std::string& title);
/// `css_class` may be empty.
std::string svg_words(double x, double y, const std::string& text, std::string_view css_class = "");
std::string svg_line(double x1, double y1, double x2, double y2);

/// "12.3 us", "1.234 ms" or "12.34 s".
std::string time_text(double seconds);

/// A mark on an axis.
struct Tick {
  double value = 0;
  std::string text;
};
/// From 0 to `end`, about `number` of them, at round values: 1, 2 or 5 times a power of ten, in the unit of the
/// largest.
std::vector<Tick> time_ticks(double end_seconds, int number);
std::vector<Tick> memory_ticks(uint64_t end_bytes, int number);

}  // namespace tessera::host
