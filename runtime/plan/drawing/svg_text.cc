// Elements as text. Coordinates have one or two digits after the point, a hundredth of a pixel: with more, a drawing of
// tens of thousands of actions would be larger and look the same.

#include "plan/drawing/svg_text.h"

#include <algorithm>
#include <cmath>

#include "base/concat.h"

namespace tessera::host {
namespace {

struct Unit {
  double size;
  const char* name;
};

/// The largest that is not larger than `end`.
Unit unit_of(double end, std::initializer_list<Unit> ascending) {
  Unit found = *ascending.begin();
  for (const Unit& unit : ascending)
    if (unit.size <= end) found = unit;
  return found;
}

/// The step is the first of 1, 2, 5 and 10 times a power of ten that makes at most `number` marks after 0.
std::vector<Tick> ticks(double end, int number, const Unit& unit) {
  if (!(end > 0)) return {{0, concat("0 ", unit.name)}};
  const double least = end / unit.size / number, power = std::pow(10, std::floor(std::log10(least)));
  const double digits = least / power;
  const double step = power * (digits <= 1 ? 1 : digits <= 2 ? 2 : digits <= 5 ? 5 : 10);
  std::vector<Tick> result;
  for (int i = 0; i * step * unit.size <= end * (1 + 1e-9); ++i)
    result.push_back({i * step * unit.size, concat(format("%.6g ", i * step), unit.name)});
  return result;
}

}  // namespace

std::string svg_rectangle(std::string_view css_class, double x, double y, double width, double height,
                          const std::string& title) {
  return format("<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\">",
                std::string(css_class).c_str(), x, y, std::max(width, 0.2), height) +
         "<title>" + escaped_markup(title) + "</title></rect>\n";
}

std::string svg_words(double x, double y, const std::string& text, std::string_view css_class) {
  return concat("<text", css_class.empty() ? "" : concat(" class=\"", css_class, "\""),
                format(" x=\"%.1f\" y=\"%.1f\">", x, y), escaped_markup(text), "</text>\n");
}

std::string svg_line(double x1, double y1, double x2, double y2) {
  return format("<line x1=\"%.2f\" y1=\"%.1f\" x2=\"%.2f\" y2=\"%.1f\"/>\n", x1, y1, x2, y2);
}

std::string time_text(double seconds) {
  if (seconds >= 10) return format("%.2f s", seconds);
  return seconds < 1e-3 ? format("%.1f us", seconds * 1e6) : format("%.3f ms", seconds * 1e3);
}

std::vector<Tick> time_ticks(double end_seconds, int number) {
  return ticks(end_seconds, number, unit_of(end_seconds, {{1e-6, "us"}, {1e-3, "ms"}, {1, "s"}}));
}

std::vector<Tick> memory_ticks(uint64_t end_bytes, int number) {
  const auto end = static_cast<double>(end_bytes);
  return ticks(end, number, unit_of(end, {{1, "B"}, {1024, "KiB"}, {1 << 20, "MiB"}, {1 << 30, "GiB"}}));
}

}  // namespace tessera::host
