// The layout of a help. The left column has the flag and the name of its value; where they fill it, the help is on the
// next line:
//
//       --seq-len N               tokens per sequence; 0: the context length of the
//                                 model (default 0)
//       --recompute none|full|every=K|attention
//                                 save memory by recomputing activations in the ...

#include "config/help/flag_text.h"

#include <algorithm>

#include "base/concat.h"
#include "config/text_values.h"

namespace tessera::host {
namespace {

constexpr int kHelpIndent = 28;
/// A space at which no line ends.
constexpr char kTogether = '\x1f';

std::string left_of(const FlagText& flag) {
  return concat("  --", flag.name, flag.value.empty() ? "" : " ", flag.value);
}

std::string row_of(const FlagText& flag) {
  return concat(flag.help, flag.is_required ? " (required)" : "",
                flag.default_value.empty() ? "" : concat(" (default", kTogether, flag.default_value, ")"));
}

}  // namespace

std::string wrapped(std::string_view text, int num_columns, int indent) {
  std::string lines;
  size_t column = 0;
  const auto most = static_cast<size_t>(num_columns - indent);
  for (const std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    if (column > 0 && column + 1 + word.size() > most) {
      lines += "\n" + std::string(static_cast<size_t>(indent), ' ');
      column = 0;
    }
    lines += concat(column > 0 ? " " : "", word);
    column += word.size() + (column > 0 ? 1 : 0);
  }
  return lines;
}

std::string wrapped_command(std::string_view command, int num_columns, int indent) {
  std::string lines;
  size_t column = 0;
  const auto most = static_cast<size_t>(num_columns - indent);
  while (!command.empty()) {
    const size_t end = std::min(command.find(" --", 1), command.size());
    const std::string_view part = command.substr(0, end);  // begins with a blank, except the first one
    const size_t for_backslash = end == command.size() ? 0 : 2;
    if (column > 0 && column + part.size() + for_backslash > most) {
      lines += " \\\n" + std::string(static_cast<size_t>(indent), ' ');
      column = 0;
    }
    lines += column == 0 && !lines.empty() ? part.substr(1) : part;
    column += part.size();
    command.remove_prefix(end);
  }
  return lines;
}

std::string flag_rows(std::span<const FlagText> flags) {
  std::string text;
  std::string_view group;
  for (const FlagText& flag : flags) {
    if (flag.group != group) text += concat("\n", group = flag.group, ":\n");
    const std::string left = left_of(flag);
    const bool fits = left.size() + 2 <= kHelpIndent;
    text += left + (fits ? "" : "\n") + std::string(kHelpIndent - (fits ? left.size() : 0), ' ');
    std::string help = wrapped(row_of(flag), kHelpColumns, kHelpIndent);
    std::ranges::replace(help, kTogether, ' ');
    text += help + "\n";
  }
  return text;
}

std::string help_of(const HelpText& text, std::span<const FlagText> flags) {
  std::string help = concat("usage: ", wrapped(text.usage, kHelpColumns, 7), "\n\n", wrapped(text.what), "\n");
  if (!text.examples.empty()) help += text.examples.size() == 1 ? "\nExample:\n" : "\nExamples:\n";
  for (const std::string& example : text.examples)
    help += concat("  ", wrapped_command(example, kHelpColumns, 6), "\n");
  help += flag_rows(flags);
  return text.notes.empty() ? help : concat(help, "\n", text.notes_heading, ":\n", text.notes);
}

}  // namespace tessera::host
