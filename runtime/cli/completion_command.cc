// `tessera completion bash|zsh`: generated from the tables of commands and flags that --help also uses. The build
// writes the scripts to files for installation. In bash's script a flag with a value has a line, and so has a command
// (or a part of it, such as bench comm) with its words and flags; a value that the help calls FILE or FOLDER completes
// the names of files or folders:
//
//     'train --recompute') _tessera_words "none full attention"; return ;;
//     'train --save') mapfile -t COMPREPLY < <(compgen -d -W "" -- "$word"); return ;;
//     'train --comm') _tessera_words "auto $(_tessera_plugins communicator)"; return ;;
//     'bench comm') words="" flags='--comm --device --nproc ...' ;;
//
// Options of plugins, --fsdp.wrap, come from `tessera plugins info` when the tab is pressed.

#include <algorithm>
#include <iostream>
#include <iterator>
#include <utility>

#include "base/concat.h"
#include "cli/command_line.h"
#include "cli/command_table.h"
#include "cli/commands.h"
#include "config/text_values.h"
#include "config/usage_error.h"
#include "model/architectures.h"

namespace tessera::host {
namespace {

constexpr std::string_view kAnyKind = "any";

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string names_of_commands() {
  std::vector<std::string> names;
  for (const Subcommand& command : commands())
    names.emplace_back(command.name);
  return joined(names);
}

/// The completions of a value that the help writes as `full|every=K|FILE`: its literal words, and whether it may be a
/// file or a folder, or the name of a plugin.
struct Choices {
  std::string words;  ///< with a blank between them
  bool is_file = false, is_folder = false;
  std::string plugin_kind = {};  ///< as `tessera plugins list` has it, or kAnyKind; empty: none
};

Choices choices_of(std::string_view value) {
  Choices choices;
  for (const std::string_view part : split(value, '|')) {
    const bool is_literal = part.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-_") == part.npos;
    if (part == "COMMAND") choices.words += names_of_commands();
    if (is_literal && !part.empty()) choices.words += concat(choices.words.empty() ? "" : " ", part);
    for (const char* name : {"FILE", "PATH", "IN"})
      choices.is_file |= part.starts_with(name);
    for (const char* name : {"FOLDER", "CHECKPOINT"})
      choices.is_folder |= part.starts_with(name);
  }
  return choices;
}

Choices choices_of(const FlagText& flag) {
  constexpr std::pair<std::string_view, std::string_view> kKinds[] = {
      {"strategy", "strategy"}, {"comm", "communicator"}, {"device", "device"}, {"offload", "offload"}};
  Choices choices = choices_of(flag.value);
  if (const auto kind = std::ranges::find(kKinds, flag.name, [](const auto& k) { return k.first; });
      kind != std::end(kKinds))
    choices.plugin_kind = kind->second;
  if (flag.name == "model") choices.words = joined(model_names());
  return choices;
}

/// A command, or a part of one, as the scripts complete it.
struct Completed {
  std::string name;  ///< "train", "bench comm"
  Choices first;     ///< the first word after it
  std::vector<FlagText> flags;
};

/// Those of the part, such as "bench comm", and those of all parts.
std::vector<FlagText> flags_of(const Subcommand& command, const std::string& part) {
  std::vector<FlagText> flags;
  for (FlagText& flag : command.flags()) {
    const std::string group = flag.group.substr(0, flag.group.find(':'));
    if (group == part || !group.starts_with(concat(command.name, " "))) flags.push_back(std::move(flag));
  }
  return flags;
}

/// `bench comm|device|disk|rates` has parts: each choice of the first word. Commands without flags need none.
bool has_parts(const Subcommand& command) {
  const std::string_view first = command.operands.substr(0, command.operands.find(' '));
  return !choices_of(first).words.empty() && !command.flags().empty();
}

std::vector<Completed> completed_commands() {
  std::vector<Completed> all = {{"help", choices_of("COMMAND"), {}}};
  for (const Subcommand& command : commands()) {
    const Choices first = choices_of(command.operands.substr(0, command.operands.find(' ')));
    all.push_back({std::string(command.name), first, flags_of(command, "")});
    if (!has_parts(command)) continue;
    for (const std::string_view part : split(first.words, ' ')) {
      const std::string name = concat(command.name, " ", part);
      all.push_back({name, {}, flags_of(command, name)});
      if (part == "info") all.back().first.plugin_kind = kAnyKind;
    }
  }
  return all;
}

std::string names_with_parts() {
  std::string names;
  for (const Subcommand& command : commands())
    if (has_parts(command)) names += concat(names.empty() ? "" : "|", command.name);
  return names;
}

std::string replaced(std::string_view text, char what, std::string_view by) {
  std::string result;
  for (const char c : text)
    c == what ? result += by : result += c;
  return result;
}

// Bash cuts words at "=", so "--flag=va" is three words, and "--strategy pp=a,dp=b" has two more of them: the flag is
// found by going back over all.
constexpr std::string_view kBashHead = R"sh(# bash completion for tessera, written by `tessera completion bash`
_tessera_plugins() {
  local kind name path
  "${COMP_WORDS[0]}" plugins list 2>/dev/null | while read -r kind name path; do
    [ "$kind" != "$1" ] && [ "$1" != any ] || echo "$name"
  done
}
_tessera_words() {
  local list=
  [[ $word != *,* ]] || list=${word%,*},
  mapfile -t COMPREPLY < <(compgen -P "$list" -W "$1" -- "${word##*,}")
}
_tessera() {
  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} first=2 i=$COMP_CWORD before words flags
  if [ "$word" = = ]; then word= i=$((i + 1)); fi
  while [ "$i" -gt 1 ] && [ "${COMP_WORDS[i-1]}" = = ]; do i=$((i - 2)); done
  before=${COMP_WORDS[i-1]}
  if [ "$i" -lt "$COMP_CWORD" ] && [[ ${COMP_WORDS[i]} = -* ]]; then before=${COMP_WORDS[i]}; fi
  if [[ $word = --*.* ]]; then
    flags=${word#--}
    flags=$("${COMP_WORDS[0]}" plugins info "${flags%%.*}" 2>/dev/null | sed -n 's/^  \(--[^ ]*\).*/\1/p')
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$word")
    return
  fi
)sh";
constexpr std::string_view kBashTail = R"sh(  esac
  if [ "${word:0:1}" = - ]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$word")
  elif [ "$COMP_CWORD" = "$first" ] && [ -n "$words" ]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  elif [ "$i" = "$COMP_CWORD" ]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o filenames -F _tessera tessera
)sh";

/// In double quotes: the words, and the names of plugins as they are when it is evaluated.
std::string bash_words(const Choices& choices) {
  const std::string blank = choices.words.empty() || choices.plugin_kind.empty() ? "" : " ";
  return concat("\"", choices.words, blank,
                choices.plugin_kind.empty() ? "" : concat("$(_tessera_plugins ", choices.plugin_kind, ")"), "\"");
}

/// A flag's value is completed after a space and after '='.
std::string bash_value(const Choices& choices) {
  if (!choices.is_file && !choices.is_folder) return concat("_tessera_words ", bash_words(choices));
  return concat("mapfile -t COMPREPLY < <(compgen ", choices.is_file ? "-f" : "-d", " -W ", bash_words(choices),
                " -- \"$word\")");
}

std::string bash_completion() {
  std::string text(kBashHead), flags;
  text += concat("  if [ \"$COMP_CWORD\" = 1 ]; then\n    mapfile -t COMPREPLY < <(compgen -W '", names_of_commands(),
                 " --help --version' -- \"$word\")\n    return\n  fi\n  case $command in\n    ", names_with_parts(),
                 ") [ \"$COMP_CWORD\" = 2 ] || { command+=\" ${COMP_WORDS[2]}\" first=3; } ;;\n  esac\n"
                 "  case \"$command $before\" in\n");
  for (const Completed& command : completed_commands()) {
    flags += concat("    '", command.name, "') words=", bash_words(command.first), " flags='");
    for (const FlagText& flag : command.flags) {
      flags += concat("--", flag.name, " ");
      if (!flag.value.empty())
        text += concat("    '", command.name, " --", flag.name, "') ", bash_value(choices_of(flag)), "; return ;;\n");
    }
    flags += "' ;;\n";
  }
  return concat(text, "  esac\n  case $command in\n", flags, kBashTail);
}

/// Text inside '[...]' of an argument of _arguments, which is in single quotes itself.
std::string zsh_quoted(std::string_view text) {
  return replaced(replaced(replaced(replaced(replaced(text, '\\', "\\\\"), '\'', "'\\''"), '[', "\\["), ']', "\\]"),
                  ':', "\\:");
}

/// ":what:(a b)", ":what:_files", ":what:_tessera_plugins device", or several as alternatives. The blank before
/// _alternative keeps _arguments from giving it options, and a ':' inside of it must not end the action.
std::string zsh_action(std::string_view what, const Choices& choices) {
  std::vector<std::pair<std::string_view, std::string>> actions;  // what is completed, and how
  if (!choices.words.empty()) actions.emplace_back("words\\:word", concat("(", choices.words, ")"));
  if (choices.is_file || choices.is_folder)
    actions.emplace_back("files\\:file", choices.is_file ? "_files" : "_files -/");
  if (!choices.plugin_kind.empty())
    actions.emplace_back("plugins\\:plugin", concat("_tessera_plugins ", choices.plugin_kind));
  std::string text = actions.empty() ? " " : actions.front().second;
  if (actions.size() > 1) {
    text = " _alternative";
    for (const auto& [tag, action] : actions)
      text += concat(" \"", tag, "\\:", action, "\"");
  }
  return concat(":", zsh_quoted(what), ":", text);
}

// The last argument of _tessera_plugins is the kind; those before it are of compadd. What comes before a ',' or '=' of
// a value, such as dp=, is not part of the name.
constexpr std::string_view kZshHead = R"sh(#compdef tessera
# zsh completion, written by `tessera completion zsh`
_tessera_plugins() {
  local kind name path_; local -a names
  $program plugins list 2>/dev/null | while read -r kind name path_; do
    [[ $kind != $argv[-1] && any != $argv[-1] ]] || names+=$name
  done
  compset -P '*[,=]'
  compadd "${(@)argv[1,-2]}" -- $names
}
_tessera() {
  local program=$words[1]
  if [[ $PREFIX = --*.* && $PREFIX != *=* ]]; then
    local -a options
    options=(${(f)"$($program plugins info ${${PREFIX#--}%%.*} 2>/dev/null | sed -n 's/^  \(--[^ ]*\).*/\1/p')"})
    compadd -S = -- $options
    return
  fi
  if (( CURRENT == 2 )); then
    local -a commands
    commands=(
)sh";

std::string zsh_completion() {
  std::string text(kZshHead);
  for (const Subcommand& command : commands())
    text += concat("      '", command.name, ":", zsh_quoted(command.what), "'\n");
  text += concat(
      "    )\n    _describe command commands\n    return\n  fi\n  local command=$words[2]\n  shift words\n"
      "  (( CURRENT-- ))\n  if [[ $command = (",
      names_with_parts(),
      ") ]] && (( CURRENT > 2 )); then\n    command+=\" $words[2]\"\n    shift words\n    (( CURRENT-- ))\n  fi\n"
      "  case $command in\n");
  for (const Completed& command : completed_commands()) {
    text += concat("    '", command.name, "') _arguments");
    for (const FlagText& flag : command.flags) {
      const std::string value = flag.value.empty() ? "" : zsh_action(flag.value, choices_of(flag));
      text += concat(" \\\n      '", flag.is_repeatable ? "*" : "", "--", flag.name, value.empty() ? "" : "=", "[",
                     zsh_quoted(flag.help), "]", value, "'");
    }
    const Choices& first = command.first;
    if (!first.words.empty() || !first.plugin_kind.empty())
      text += concat(" \\\n      '1", zsh_action("word", first), "'");
    text += " \\\n      '*:file:_files' ;;\n";
  }
  return text +
         "  esac\n}\nif [ \"$funcstack[1]\" = _tessera ]; then _tessera \"$@\"; else compdef _tessera tessera; fi\n";
}

}  // namespace

HelpText completion_help() {
  return {"tessera completion bash|zsh",
          "Prints the completion script of this shell. The example completes in this shell alone.",
          {"source <(tessera completion bash)"}};
}

int completion_command(std::span<const std::string> arguments) {
  if (asks_for_help(arguments)) {
    std::cout << help_of(completion_help(), {});
    return 0;
  }
  const std::string shell = arguments.empty() ? "" : arguments[0];
  if (arguments.size() != 1 || (shell != "bash" && shell != "zsh"))
    throw UsageError(concat("tessera completion takes one shell, bash or zsh",
                            shell.empty()          ? ""
                            : arguments.size() > 1 ? std::string(", not several")
                                                   : concat(", not '", shell, "'"),
                            "; give tessera completion bash"));
  std::cout << (shell == "bash" ? bash_completion() : zsh_completion());
  return 0;
}

}  // namespace tessera::host
