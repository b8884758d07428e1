// Aligned rows of a log.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::host {

struct Row {
  std::string name, value;
};

/// The title, and a line for each row that has a value, with the values below one another:
///
///     training
///       model            gpt2
///       mesh             dp=2
///
/// A value goes on in further lines, below its beginning, where it would be wider than `num_columns`; 0: never.
std::string table(std::string_view title, const std::vector<Row>& rows, size_t num_columns);
/// For tables of the log: those of a terminal, and 0 elsewhere, where each row is one line.
size_t table_columns();

}  // namespace tessera::host
