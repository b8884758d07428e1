// `tessera completion bash|zsh` and `tessera manual COMMAND`: generated from the tables of commands and flags that
// --help also uses. The build writes them to files for installation. In bash's script a flag with a value has a line,
// and a command one with its words and flags; a value that the help calls FILE or PATH completes the names of files:
//
//     'train --recompute') mapfile -t COMPREPLY < <(compgen -W "none full attention" -- "$word"); return ;;
//     'train --metrics') mapfile -t COMPREPLY < <(compgen -f -W "" -- "$word"); return ;;
//     'train --comm') mapfile -t COMPREPLY < <(compgen -W "auto $(_tessera_plugins communicator)" -- "$word"); return
//     ;; bench) words='comm device disk rates' flags='--rates --model ... ' ;;

#include <algorithm>
#include <iostream>
#include <iterator>
#include <utility>

#include "base/concat.h"
#include "cli/command_table.h"
#include "cli/commands.h"
#include "config/text_values.h"
#include "config/usage_error.h"

namespace tessera::host {
namespace {

std::string names_of_commands() {
  std::string names;
  for (const Subcommand& command : commands())
    names += concat(names.empty() ? "" : " ", command.name);
  return names;
}

/// Each once: parts of a command may share some.
std::vector<FlagText> flags_of(const Subcommand& command) {
  std::vector<FlagText> flags;
  for (FlagText& flag : command.flags())
    if (std::ranges::find(flags, flag.name, &FlagText::name) == flags.end()) flags.push_back(std::move(flag));
  return flags;
}

/// The completions of a value that the help writes as `full|every=K|FILE`: its literal words, and whether it may be a
/// file, or the name of a plugin.
struct Choices {
  std::string words;  ///< with a blank between them
  bool is_file = false;
  std::string plugin_kind = {};  ///< as `tessera plugins list` has it; empty: none
};

Choices choices_of(std::string_view value) {
  Choices choices;
  for (const std::string_view part : split(value, '|')) {
    const bool is_literal = part.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-_") == part.npos;
    if (part == "COMMAND") choices.words += names_of_commands();
    if (is_literal && !part.empty()) choices.words += concat(choices.words.empty() ? "" : " ", part);
    for (const char* name : {"FILE", "FOLDER", "PATH", "CHECKPOINT", "IN"})
      choices.is_file |= part.starts_with(name);
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
  return choices;
}

/// The first of a command's words.
Choices first_word(const Subcommand& command) {
  return choices_of(std::string_view(command.operands).substr(0, command.operands.find(' ')));
}

std::string replaced(std::string_view text, char what, std::string_view by) {
  std::string result;
  for (const char c : text)
    c == what ? result += by : result += c;
  return result;
}

// Bash cuts words at "=", so "--flag=va" is three words: "before" is then two words back.
constexpr std::string_view kBashHead = R"(# bash completion for tessera, written by `tessera completion bash`
_tessera_plugins() {
  local kind name path
  "${COMP_WORDS[0]}" plugins list 2>/dev/null | while read -r kind name path; do
    [ "$kind" != "$1" ] || echo "$name"
  done
}
_tessera() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} words flags i
  if [ "$word" = = ]; then word=
  elif [ "$before" = = ]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi
)";

/// A flag's value is completed after a space and after '='.
std::string bash_completion() {
  std::string text(kBashHead), flags;
  text += concat("  if [ \"$COMP_CWORD\" = 1 ]; then\n    mapfile -t COMPREPLY < <(compgen -W '", names_of_commands(),
                 " --help --version' -- \"$word\")\n    return\n  fi\n  case \"$command $before\" in\n");
  for (const Subcommand& command : commands()) {
    flags += concat("    ", command.name, ") words='", first_word(command).words, "' flags='");
    for (const FlagText& flag : flags_of(command)) {
      flags += concat("--", flag.name, " ");
      if (flag.value.empty()) continue;
      const Choices choices = choices_of(flag);
      const std::string plugins =
          choices.plugin_kind.empty() ? "" : concat(" $(_tessera_plugins ", choices.plugin_kind, ")");
      text += concat("    '", command.name, " --", flag.name, "') mapfile -t COMPREPLY < <(compgen ",
                     choices.is_file ? "-f " : "", "-W \"", choices.words, plugins, "\" -- \"$word\"); return ;;\n");
    }
    flags += "' ;;\n";
  }
  return text + "  esac\n  case $command in\n" + flags +
         "  esac\n"
         "  if [ \"${word:0:1}\" = - ]; then\n    mapfile -t COMPREPLY < <(compgen -W \"$flags\" -- \"$word\")\n"
         "  elif [ \"$COMP_CWORD\" = 2 ] && [ -n \"$words\" ]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
         "  else\n    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n  fi\n}\n"
         "complete -o filenames -F _tessera tessera\n";
}

/// Text inside '[...]' of an argument of _arguments, which is in single quotes itself.
std::string zsh_quoted(std::string_view text) {
  return replaced(replaced(replaced(replaced(replaced(text, '\\', "\\\\"), '\'', "'\\''"), '[', "\\["), ']', "\\]"),
                  ':', "\\:");
}

/// ":what:(a b)", ":what:_files", ":what:_tessera_plugins device", or several as alternatives.
std::string zsh_action(std::string_view what, const Choices& choices) {
  std::vector<std::pair<std::string_view, std::string>> actions;  // what is completed, and how
  if (!choices.words.empty()) actions.emplace_back("words:word", concat("(", choices.words, ")"));
  if (choices.is_file) actions.emplace_back("files:file", "_files");
  if (!choices.plugin_kind.empty())
    actions.emplace_back("plugins:plugin", concat("_tessera_plugins ", choices.plugin_kind));
  std::string text = actions.empty() ? " " : actions.front().second;
  if (actions.size() > 1) {
    text = "_alternative";
    for (const auto& [tag, action] : actions)
      text += concat(" \"", tag, ":", action, "\"");
  }
  return concat(":", zsh_quoted(what), ":", text);
}

std::string zsh_completion() {
  std::string text =
      "#compdef tessera\n# zsh completion, written by `tessera completion zsh`\n_tessera_plugins() {\n"
      "  local kind name path_; local -a names\n"
      "  $program plugins list 2>/dev/null | while read -r kind name path_; do\n"
      "    [[ $kind != $argv[-1] ]] || names+=$name\n  done\n"
      "  compadd \"${(@)argv[1,-2]}\" -- $names\n}\n"
      "_tessera() {\n  local program=$words[1]\n"
      "  if (( CURRENT == 2 )); then\n    local -a commands\n    commands=(\n";
  for (const Subcommand& command : commands())
    text += concat("      '", command.name, ":", zsh_quoted(command.what), "'\n");
  text +=
      "    )\n    _describe command commands\n    return\n  fi\n  local command=$words[2]\n  shift words\n"
      "  (( CURRENT-- ))\n  case $command in\n";
  for (const Subcommand& command : commands()) {
    text += concat("    ", command.name, ") _arguments");
    for (const FlagText& flag : flags_of(command)) {
      const std::string value = flag.value.empty() ? "" : zsh_action(flag.value, choices_of(flag));
      text += concat(" \\\n      '", flag.is_repeatable ? "*" : "", "--", flag.name, value.empty() ? "" : "=", "[",
                     zsh_quoted(flag.help), "]", value, "'");
    }
    if (const Choices first = first_word(command); !first.words.empty())
      text += concat(" \\\n      '1", zsh_action("word", first), "'");
    text += " \\\n      '*:file:_files' ;;\n";
  }
  return text +
         "  esac\n}\nif [ \"$funcstack[1]\" = _tessera ]; then _tessera \"$@\"; else compdef _tessera tessera; fi\n";
}

/// Text in roff: dashes print as ASCII hyphens, and no line is taken for a request.
std::string roff(std::string_view text) {
  const std::string escaped = replaced(replaced(text, '\\', "\\e"), '-', "\\-");
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

std::string page_head(const std::string& name, std::string_view what) {
  return concat(".TH ", roff(name), " 1 \"\" \"tessera ", TESSERA_VERSION, "\"\n.SH NAME\n", roff(name), " \\- ",
                roff(what), "\n");
}

std::string manual_of(const Subcommand& command) {
  std::string text = page_head(concat("tessera-", command.name), command.what);
  text += concat(".SH SYNOPSIS\n\\fBtessera ", command.name, "\\fR ", roff(command.operands),
                 command.flags().empty() ? "" : " [flags]", "\n");
  std::string group = "Flags";
  if (!command.flags().empty()) text += ".SH FLAGS\n";
  for (const FlagText& flag : command.flags()) {
    if (!flag.group.empty() && flag.group != group) text += concat(".SS ", roff(group = flag.group), "\n");
    text += concat(".TP\n\\fB", roff("--" + flag.name), "\\fR", flag.value.empty() ? "" : " ", roff(flag.value), "\n",
                   roff(flag.help));
    if (!flag.default_value.empty()) text += concat(" (default ", roff(flag.default_value), ")");
    text += flag.is_required ? " (required)\n" : "\n";
  }
  return text + ".SH SEE ALSO\n.BR tessera (1)\n";
}

std::string manual_of_all() {
  std::string text = page_head("tessera", "trains models on many ranks");
  text += ".SH SYNOPSIS\n.B tessera\nCOMMAND [flags]\n.SH COMMANDS\n";
  for (const Subcommand& command : commands())
    text += concat(".TP\n\\fB", command.name, "\\fR ", roff(command.operands), "\n", roff(command.what), "; ",
                   roff(concat("tessera-", command.name)), "(1)\n");
  return text + ".SH EXIT STATUS\n0 success, 1 the run failed, 2 wrong usage, 128 + N ended by signal N\n";
}

constexpr std::string_view kCompletionHelp =
    "usage: tessera completion bash|zsh\n\n"
    "Prints the completion script of this shell. For this shell alone:\n"
    "  source <(tessera completion bash)\n";
constexpr std::string_view kManualHelp =
    "usage: tessera manual [COMMAND]\n\n"
    "Prints the manual page of a command, or that of tessera, for man:\n"
    "  tessera manual train | man -l -\n";

bool asks_for_help(std::span<const std::string> arguments) {
  return arguments.size() == 1 && (arguments[0] == "--help" || arguments[0] == "-h");
}

}  // namespace

int completion_command(std::span<const std::string> arguments) {
  if (asks_for_help(arguments)) {
    std::cout << kCompletionHelp;
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

int manual_command(std::span<const std::string> arguments) {
  if (asks_for_help(arguments)) {
    std::cout << kManualHelp;
    return 0;
  }
  const std::string name = arguments.empty() ? "tessera" : arguments[0];
  const auto command = std::ranges::find(commands(), name, &Subcommand::name);
  if (arguments.size() > 1)
    throw UsageError("tessera manual prints the page of one command; give one name, or none for the page of tessera");
  if (name != "tessera" && command == commands().end())
    throw UsageError(concat("tessera has no command '", name, "'; give one of ", names_of_commands(),
                            ", or none for the page of tessera"));
  std::cout << (name == "tessera" ? manual_of_all() : manual_of(*command));
  return 0;
}

}  // namespace tessera::host
