#include "train/report/table.h"

#include <algorithm>
#include <cctype>

#include "base/concat.h"
#include "base/terminal.h"

namespace tessera::host {
namespace {

/// Of the names, so that the tables of a run line up with one another.
constexpr size_t kMinWidth = 15;

constexpr size_t kMinValueWidth = 20;  // fewer are harder to read than a line that the terminal breaks

/// Where a line of at most `num_columns` may end: the space after a comma or before a parenthesis in its second half,
/// or one that is not between a number and its unit, or any space.
size_t end_of_line(std::string_view value, size_t num_columns) {
  for (size_t i = num_columns; i > num_columns / 2; --i)
    if (value[i] == ' ' && (std::string_view(",;:").find(value[i - 1]) != value.npos || value.substr(i, 2) == " ("))
      return i;
  for (size_t i = num_columns; i > num_columns / 2; --i)
    if (value[i] == ' ' && std::isdigit(static_cast<unsigned char>(value[i - 1])) == 0) return i;
  const size_t before = value.rfind(' ', num_columns);
  return before != value.npos ? before : std::min(value.find(' ', num_columns), value.size());
}

/// `value` with `line_break` in place of spaces, so that no line has more than `num_columns`, if words allow it.
std::string wrapped(std::string_view value, size_t num_columns, const std::string& line_break) {
  std::string text;
  while (value.size() > num_columns) {
    const size_t end = end_of_line(value, num_columns);
    text += value.substr(0, end);
    value.remove_prefix(std::min(end + 1, value.size()));
    if (!value.empty()) text += line_break;
  }
  return text.append(value);
}

}  // namespace

size_t table_columns() {
  return standard_error().redraws ? static_cast<size_t>(terminal_columns()) : 0;
}

std::string table(std::string_view title, const std::vector<Row>& rows, size_t num_columns) {
  size_t width = kMinWidth;
  for (const Row& row : rows)
    if (!row.value.empty()) width = std::max(width, row.name.size());
  const size_t indent = width + 4;
  const std::string line_break = "\n" + std::string(indent, ' ');
  const size_t value_columns = std::max(kMinValueWidth, num_columns > indent ? num_columns - indent : 0);
  std::string text(title);
  for (const auto& [name, value] : rows)
    if (!value.empty())
      text += concat("\n  ", name, std::string(width + 2 - name.size(), ' '),
                     num_columns > 0 ? wrapped(value, value_columns, line_break) : value);
  return text;
}

}  // namespace tessera::host
