// Flags as a help shows them: two columns, in 80 columns of a terminal.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// The rest of a help: what a help and a manual page have besides flags.
struct HelpText {
  std::string usage;                  ///< a command line: "tessera convert FOLDER OUT [flags]"
  std::string what;                   ///< a sentence or two
  std::vector<std::string> examples;  ///< command lines
  std::string notes_heading = {};     ///< "Models (--model)"
  std::string notes = {};             ///< its lines; empty: the help has no notes
};

/// Words of `text` in lines of at most `num_columns`, joined by newlines, all but the first indented. A word that is
/// longer than a line has one of its own.
std::string wrapped(std::string_view text, int num_columns = kHelpColumns, int indent = 0);

/// A command line in lines of at most `num_columns` that can be pasted: all but the last end with " \\", and the next
/// one begins with a flag. A flag and its value are never apart.
std::string wrapped_command(std::string_view command, int num_columns = kHelpColumns, int indent = 0);

/// Flag and help of each, below a heading wherever the group changes; a group without a name has none.
///
///     Model and data:
///       --model NAME|FOLDER     name of a model, or a folder (required)
std::string flag_rows(std::span<const FlagText> flags);

/// Usage, sentences, examples, flags and notes, in 80 columns.
std::string help_of(const HelpText& text, std::span<const FlagText> flags);

}  // namespace tessera::host
