// docs/bad-input.md is true: its set-up is run once, and each row of its tables with bash.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <sstream>

#include "e2e/cli.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

#ifdef TESSERA_IS_SANITIZED
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif
constexpr int kCannotBeTried = 77;
constexpr int kIsStillBusy = 124;  // timeout's: it says so again and again
constexpr int kFirstBySignal = 128;

struct Row {
  std::string name;  // heading and first column, as googletest takes names
  std::string command;
  int exit_code = 0;
  std::string sentence;
};

std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << row.command;
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
  return begin == text.npos ? "" : text.substr(begin, end - begin + 1);
}

/// The cells of "| a | b |", in which \| is a bar.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells{""};
  for (size_t i = 1; i < line.size(); ++i) {
    if (line[i] == '|')
      cells.emplace_back();
    else
      cells.back() += line[i] == '\\' && line[i + 1] == '|' ? line[++i] : line[i];
  }
  cells.pop_back();  // what follows the last bar
  std::ranges::transform(cells, cells.begin(), trimmed);
  return cells;
}

std::string as_name(const std::string& text) {
  std::string name;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)))
      name += c;
    else if (!name.empty() && name.back() != '_')
      name += '_';
  return name;
}

struct Document {
  std::string set_up;
  std::vector<Row> rows;
};

/// Reads the row; "... more" as the first cell goes on with the row before.
Row row_of(const std::vector<std::string>& cells, const std::string& heading, std::string& before) {
  const bool goes_on = cells[0].starts_with("...");
  if (!goes_on) before = cells[0];
  const std::string what = goes_on ? before + " " + cells[0] : cells[0];
  return {as_name(heading + "_" + what), cells[1].substr(1, cells[1].size() - 2), std::stoi(cells[2]), cells[3]};
}

Document read_document() {
  Document document;
  std::istringstream in(file_bytes(source_dir("docs/bad-input.md")));
  std::string heading, before;
  bool in_set_up = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      in_set_up = !in_set_up;
    } else if (in_set_up) {
      document.set_up += line + "\n";
    } else if (line.starts_with("## ")) {
      heading = line.substr(3, line.find_first_of(" ,", 3) - 3);
    } else if (line.starts_with("| ") && line.find("| `") != line.npos) {
      document.rows.push_back(row_of(cells_of(line), heading, before));
    }
  }
  return document;
}

const Document& document() {
  static const Document document = read_document();
  return document;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

bool has_control_characters(const std::string& text) {
  return std::ranges::any_of(text, [](char c) { return (c >= 0 && c < ' ' && c != '\n') || c == '\x7f'; });
}

/// As few bytes of memory, or threads, as are left here do not do for a sanitizer.
bool is_too_little_for_sanitizers(const std::string& command) {
  return command.find("ulimit -v") != command.npos || command.find("ulimit -u") != command.npos;
}

class BadInput : public ::testing::TestWithParam<Row> {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TempFolder>();
    const std::string script =
        "set -e\n" + document().set_up + "set +e\n{ declare -p; declare -f; } >set-up 2>/dev/null";
    const CommandResult result = bash(script);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static CommandResult bash(const std::string& script) {
    const std::string programs = std::filesystem::path(tessera_program()).parent_path();
    Command command({"bash", "-c", "cd " + folder_->path() + "\n" + script},
                    {{"PATH", programs + ":" + std::getenv("PATH")},
                     {"REPOSITORY", source_dir()},
                     {"BAD_PLUGINS", binary_dir("tests/bad_plugins")}});
    return command.wait();
  }

  static inline std::unique_ptr<TempFolder> folder_;
};

TEST_P(BadInput, IsAsDocumented) {
  const Row& row = GetParam();
  if (kIsSanitized && is_too_little_for_sanitizers(row.command))
    GTEST_SKIP() << "sanitizers need more memory than this limit";
  const CommandResult result = bash(". ./set-up 2>/dev/null\n" + row.command);
  if (result.exit_code == kCannotBeTried)
    GTEST_SKIP() << "needs other rights (root, and a checkout that other users can read)";
  EXPECT_EQ(result.exit_code, row.exit_code) << result.err;
  EXPECT_LT(result.exit_code, kFirstBySignal);
  const std::string said = result.out + result.err;
  const size_t times = count(said, row.sentence);
  EXPECT_TRUE(times == 1 || (times > 1 && row.exit_code == kIsStillBusy))
      << "'" << row.sentence << "' " << times << " times in:\n"
      << said;
  EXPECT_FALSE(has_control_characters(said)) << said;
}

INSTANTIATE_TEST_SUITE_P(Rows, BadInput, ::testing::ValuesIn(document().rows),
                         [](const auto& row) { return row.param.name; });

TEST(BadInputDocument, HasRows) {
  EXPECT_GT(document().rows.size(), 100u);
}

}  // namespace
}  // namespace tessera::testing
