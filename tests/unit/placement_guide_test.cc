// What docs/plugin-guide.md says of placements is what the host computes: the names of the states in messages, the
// table of sums.
#include <gtest/gtest.h>

#include <array>
#include <sstream>

#include "support/paths.h"
#include "support/temp_folder.h"
#include "verify/placement/placement.h"

namespace tessera::testing {
namespace {

using namespace host;

constexpr std::array<std::pair<const char*, PlacementKind>, 4> kStates = {{{"replicated", PlacementKind::replicated},
                                                                           {"partial", PlacementKind::partial},
                                                                           {"shard", PlacementKind::shard},
                                                                           {"varying", PlacementKind::varying}}};

/// The cells of the rows of the guide that begin with `| <first> |`.
std::vector<std::string> row(const std::string& first) {
  std::istringstream guide(file_bytes(source_dir("docs/plugin-guide.md")));
  for (std::string line; std::getline(guide, line);) {
    if (!line.starts_with("| " + first + " |")) continue;
    std::vector<std::string> cells;
    std::istringstream in(line.substr(1));
    for (std::string cell; std::getline(in, cell, '|');)
      cells.push_back(cell.size() > 2 ? cell.substr(1, cell.size() - 2) : "");
    return cells;
  }
  return {};
}

TEST(PlacementGuide, NamesStatesAsMessagesDo) {
  for (const auto& [name, kind] : kStates) {
    const auto cells = row("*" + std::string(name) + "*");
    ASSERT_GE(cells.size(), 2u) << name;
    EXPECT_EQ(cells[1], placement_text({kind, 1}, "dp"));
  }
}

TEST(PlacementGuide, HasTheSumsOfStates) {
  const auto head = row("+");
  ASSERT_EQ(head.size(), 1 + kStates.size());
  for (const auto& [name, kind] : kStates) {
    const auto cells = row("**" + std::string(name) + "**");
    ASSERT_EQ(cells.size(), head.size()) << name;
    for (size_t i = 0; i < kStates.size(); ++i) {
      EXPECT_EQ(head[i + 1], kStates[i].first);
      const auto sum = placement_of_sum({kind, 1}, {kStates[i].second, 1});
      const auto* of_kind = std::find_if(kStates.begin(), kStates.end(),
                                         [&](const auto& state) { return sum && state.second == sum->kind; });
      EXPECT_EQ(cells[i + 1], of_kind == kStates.end() ? "refused" : of_kind->first)
          << name << " + " << kStates[i].first;
    }
  }
}

}  // namespace
}  // namespace tessera::testing
