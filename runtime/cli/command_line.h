// The command line of a command with words and a few flags: tessera tokenize --tokenizer FILE IN OUT.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/help/flag_text.h"

namespace tessera::host {

/// A flag such a command has.
struct CommandFlag {
  std::string_view name;   ///< without dashes
  std::string_view value;  ///< what the help writes for its value; empty: a switch
  std::string_view help;
};

/// What a command is, for its help and its errors.
struct CommandSyntax {
  std::string_view usage;  ///< "usage: tessera tokenize --tokenizer FILE IN OUT.bin"
  std::string_view what;   ///< a sentence or two for the help
  std::span<const CommandFlag> flags;
  size_t num_words = 0;           ///< required after its name
  std::string_view example = {};  ///< a command line
};

/// A command line that was read. --help is a switch of every command; with it the words are not counted.
class CommandLine {
 public:
  /// Reads `--name value`, `--name=value`, switches and words; underscores in names count as dashes, and after `--` all
  /// is words. Throws UsageError, with the usage.
  CommandLine(const CommandSyntax& syntax, std::span<const std::string> arguments);

  const std::vector<std::string>& words() const { return words_; }
  bool wants_help() const { return has("help"); }
  bool has(std::string_view flag) const { return values_.find(flag) != values_.end(); }
  /// The flag's value, or `otherwise`.
  std::string value(std::string_view flag, std::string_view otherwise = "") const;
  /// Throws UsageError for a number that is none, or not in the range.
  int64_t integer(std::string_view flag, int64_t otherwise, int64_t min, int64_t max) const;
  double number(std::string_view flag, double otherwise, double min, double max) const;

 private:
  void read(const CommandSyntax& syntax, std::span<const std::string> arguments);

  std::vector<std::string> words_;
  std::map<std::string, std::string, std::less<>> values_;
};

/// Whether these are --help or -h alone: of commands without flags of their own.
bool asks_for_help(std::span<const std::string> arguments);

/// Its flags, with --help.
std::vector<FlagText> flag_texts(const CommandSyntax& syntax);
/// What its help has besides them.
HelpText help_text(const CommandSyntax& syntax);

/// Usage, sentence, example and flags, in 80 columns.
std::string help_of(const CommandSyntax& syntax);

}  // namespace tessera::host
