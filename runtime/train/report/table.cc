#include "train/report/table.h"

#include <algorithm>

#include "base/concat.h"

namespace tessera::host {
namespace {

/// Of the names, so that the tables of a run line up with one another.
constexpr size_t kLeastWidth = 15;

}  // namespace

std::string table(std::string_view title, const std::vector<Row>& rows) {
  size_t width = kLeastWidth;
  for (const Row& row : rows)
    if (!row.value.empty()) width = std::max(width, row.name.size());
  std::string text(title);
  for (const auto& [name, value] : rows)
    if (!value.empty()) text += concat("\n  ", name, std::string(width + 2 - name.size(), ' '), value);
  return text;
}

}  // namespace tessera::host
