// Flags as a help shows them: two columns, in 80 columns of a terminal.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tessera::host {

inline constexpr int kHelpColumns = 80;

/// A flag in words: what a help, a manual page or a completion needs of it.
struct FlagText {
  std::string group;          ///< its heading
  std::string name;           ///< without dashes
  std::string value;          ///< placeholder of the value, such as N or auto|off; empty: a switch
  std::string help;           ///< without the default
  std::string default_value;  ///< empty: none is shown
  bool is_required = false;
  bool is_repeatable = false;
};

/// Words of `text` in lines of at most `num_columns`, joined by newlines, all but the first indented. A word that is
/// longer than a line has one of its own.
std::string wrapped(std::string_view text, int num_columns = kHelpColumns, int indent = 0);

/// Flag and help of each, below a heading wherever the group changes; a group without a name has none.
///
///     Model and data:
///       --model NAME|FOLDER     name of a model, or a folder (required)
std::string flag_rows(std::span<const FlagText> flags);

}  // namespace tessera::host
