// The CSV that programs write for tables of numbers (RFC 4180, in part): cells may be in double quotes, names of
// columns may hold separators. Line breaks within quotes and doubled quotes, which such tables do not need, are not
// supported.

#include "data/examples/csv_line.h"

#include <charconv>
#include <cstdlib>
#include <string>

namespace tessera::host {
namespace {

std::string_view trimmed(std::string_view cell) {
  const auto begin = cell.find_first_not_of(" \t\r");
  if (begin == cell.npos) return {};
  return cell.substr(begin, cell.find_last_not_of(" \t\r") - begin + 1);
}

std::string_view without_quotes(std::string_view cell) {
  cell = trimmed(cell);
  if (cell.size() < 2 || cell.front() != '"' || cell.back() != '"') return cell;
  return trimmed(cell.substr(1, cell.size() - 2));
}

}  // namespace

std::optional<std::vector<std::string_view>> split_cells(std::string_view line, char separator) {
  std::vector<std::string_view> cells;
  bool is_quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') is_quoted = !is_quoted;
    if (is_quoted || line[i] != separator) continue;
    cells.push_back(without_quotes(line.substr(begin, i - begin)));
    begin = i + 1;
  }
  if (is_quoted) return std::nullopt;
  cells.push_back(without_quotes(line.substr(begin)));
  return cells;
}

char separator_of(std::string_view line) {
  bool is_quoted = false;
  for (const char c : line) {
    if (c == '"') is_quoted = !is_quoted;
    if (!is_quoted && (c == ',' || c == ';' || c == '\t')) return c;
  }
  return ',';
}

std::optional<double> parse_cell(std::string_view cell) {
  if (cell.starts_with('+') && !cell.starts_with("+-")) cell.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error == std::errc::invalid_argument || end != cell.data() + cell.size()) return std::nullopt;
  // from_chars does not tell too large from too small; the locale, which strtod depends on, is always C.
  if (error == std::errc::result_out_of_range) return std::strtod(std::string(cell).c_str(), nullptr);
  return value;
}

}  // namespace tessera::host
