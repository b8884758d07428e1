// One line of a CSV file.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace tessera::host {

/// Cells of a line, without the blanks and the double quotes around them; a separator within quotes is part of its
/// cell. Nothing when a quote is not closed.
std::optional<std::vector<std::string_view>> split_cells(std::string_view line, char separator);

/// The first of comma, semicolon and tab that the line has outside quotes; a comma when it has none.
char separator_of(std::string_view line);

/// The whole cell as a decimal number; +-infinity when double cannot hold it. "nan" and "inf" are numbers.
std::optional<double> parse_cell(std::string_view cell);

}  // namespace tessera::host
