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

std::string help_of(const FlagText& flag) {
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

std::string flag_rows(std::span<const FlagText> flags) {
  std::string text;
  std::string_view group;
  for (const FlagText& flag : flags) {
    if (flag.group != group) text += concat("\n", group = flag.group, ":\n");
    const std::string left = left_of(flag);
    const bool fits = left.size() + 2 <= kHelpIndent;
    text += left + (fits ? "" : "\n") + std::string(kHelpIndent - (fits ? left.size() : 0), ' ');
    std::string help = wrapped(help_of(flag), kHelpColumns, kHelpIndent);
    std::ranges::replace(help, kTogether, ' ');
    text += help + "\n";
  }
  return text;
}

}  // namespace tessera::host
