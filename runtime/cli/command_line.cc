// One parser for the commands that have a few flags and words:
//
//     --name value    --name=value    --switch    -h    word    -- words only
//
// --max_tokens is --max-tokens. Every flag may be given once: of two values one would be ignored. A wrong flag is
// answered with the nearest one that the command has, and a wrong number of words with the usage.

#include "cli/command_line.h"

#include <algorithm>
#include <vector>

#include "base/concat.h"
#include "config/help/did_you_mean.h"
#include "config/help/flag_text.h"
#include "config/text_values.h"
#include "config/usage_error.h"

namespace tessera::host {
namespace {

constexpr CommandFlag kHelpFlag = {"help", "", "print this text"};

std::vector<CommandFlag> all_flags(const CommandSyntax& syntax) {
  std::vector<CommandFlag> flags(syntax.flags.begin(), syntax.flags.end());
  flags.push_back(kHelpFlag);
  return flags;
}

[[noreturn]] void refuse_unknown(const std::string& name, const std::vector<CommandFlag>& flags) {
  std::vector<std::string> names;
  for (const CommandFlag& flag : flags)
    names.emplace_back(flag.name);
  throw UsageError(concat("unknown flag --", name, suggest_flag(name, names)));
}

}  // namespace

CommandLine::CommandLine(const CommandSyntax& syntax, std::span<const std::string> arguments) {
  read(syntax, arguments);
  if (wants_help() || words_.size() == syntax.num_words) return;
  if (words_.size() > syntax.num_words)
    throw UsageError(concat("unexpected argument '", words_[syntax.num_words], "'; ", syntax.usage));
  throw UsageError(
      concat("an argument is missing: ", words_.size(), " of ", syntax.num_words, " are given; ", syntax.usage));
}

void CommandLine::read(const CommandSyntax& syntax, std::span<const std::string> arguments) {
  const std::vector<CommandFlag> flags = all_flags(syntax);
  bool all_words = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& given = arguments[i];
    if (all_words || !given.starts_with("-") || given == "-") {
      if (given.empty()) throw UsageError(concat("an argument is empty; ", syntax.usage));
      words_.push_back(given);
      continue;
    }
    if ((all_words = given == "--")) continue;
    std::string name = given == "-h" ? "help" : given.substr(std::min<size_t>(2, given.size()), given.find('=') - 2);
    std::ranges::replace(name, '_', '-');
    const auto flag = std::ranges::find(flags, name, &CommandFlag::name);
    if (!given.starts_with("--") && given != "-h")
      throw UsageError(concat("unknown flag ", given, "; flags start with two dashes"));
    if (flag == flags.end()) refuse_unknown(name, flags);
    if (has(name)) throw UsageError(concat("--", name, " is given more than once; give it once"));
    const size_t equals = given.find('=');
    if (flag->value.empty() && equals != given.npos)
      throw UsageError(concat("--", name, " takes no value; leave it out"));
    if (flag->value.empty() || equals != given.npos) {
      values_[name] = flag->value.empty() ? "" : given.substr(equals + 1);
      continue;
    }
    if (i + 1 == arguments.size() || arguments[i + 1].starts_with("--"))
      throw UsageError(concat("--", name, " has no value; give ", flag->value, " after it"));
    values_[name] = arguments[++i];
  }
  for (const auto& [name, value] : values_) {
    const auto flag = std::ranges::find(flags, name, &CommandFlag::name);
    if (flag->value != "FILE" && flag->value != "FOLDER") continue;
    if (value.empty())
      throw UsageError(concat("--", name, " is empty; give a ", flag->value == "FILE" ? "file" : "folder"));
    require_no_tilde(concat("--", name), value);
  }
  for (const std::string& word : words_)
    require_no_tilde("an argument", word);
}

std::string CommandLine::value(std::string_view flag, std::string_view otherwise) const {
  const auto found = values_.find(flag);
  return found == values_.end() ? std::string(otherwise) : found->second;
}

int64_t CommandLine::integer(std::string_view flag, int64_t otherwise, int64_t min, int64_t max) const {
  return has(flag) ? parse_integer(flag, value(flag), min, max) : otherwise;
}

double CommandLine::number(std::string_view flag, double otherwise, double min, double max) const {
  return has(flag) ? parse_number(flag, value(flag), min, max) : otherwise;
}

bool asks_for_help(std::span<const std::string> arguments) {
  return arguments.size() == 1 && (arguments[0] == "--help" || arguments[0] == "-h");
}

std::vector<FlagText> flag_texts(const CommandSyntax& syntax) {
  std::vector<FlagText> texts;
  for (const CommandFlag& flag : all_flags(syntax))
    texts.push_back({"", std::string(flag.name), std::string(flag.value), std::string(flag.help), ""});
  return texts;
}

HelpText help_text(const CommandSyntax& syntax) {
  HelpText text{std::string(syntax.usage.substr(syntax.usage.find("tessera"))), std::string(syntax.what), {}};
  if (!syntax.example.empty()) text.examples.emplace_back(syntax.example);
  return text;
}

std::string help_of(const CommandSyntax& syntax) {
  std::vector<FlagText> flags = flag_texts(syntax);
  for (FlagText& flag : flags)
    flag.group = "Flags";
  return help_of(help_text(syntax), flags);
}

}  // namespace tessera::host
