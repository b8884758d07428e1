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
std::string table(std::string_view title, const std::vector<Row>& rows);

}  // namespace tessera::host
