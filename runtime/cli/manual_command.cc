// `tessera manual COMMAND`: the manual page of a command, from the table of commands and the texts of its --help. The
// build writes the pages to files for installation.
//
//     SYNOPSIS, DESCRIPTION   the usage line and the sentences of --help
//     FLAGS, MODELS           as in --help
//     EXAMPLES                command lines that can be pasted

#include <algorithm>
#include <cctype>
#include <iostream>

#include "base/concat.h"
#include "cli/command_line.h"
#include "cli/command_table.h"
#include "cli/commands.h"
#include "config/text_values.h"
#include "config/usage_error.h"

namespace tessera::host {
namespace {

/// Lines of a page that man leaves as they are have these columns in a terminal of 80.
constexpr int kPageColumns = 72;

/// Text in roff: dashes print as ASCII hyphens, and no line is taken for a request.
std::string roff(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-";
    else
      escaped += c;
  }
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

std::string page_head(const std::string& name, std::string_view what) {
  return concat(".TH ", roff(name), " 1 \"\" \"tessera ", TESSERA_VERSION, "\"\n.SH NAME\n", roff(name), " \\- ",
                roff(what), "\n");
}

std::string in_capitals(std::string_view text) {
  std::string capitals(text);
  std::ranges::transform(capitals, capitals.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return capitals;
}

/// "Models (--model)" is the section MODELS. A line that is indented by more than two goes on with the one before it.
std::string notes_section(const HelpText& help) {
  if (help.notes.empty()) return "";
  std::string text = concat(".SH ", in_capitals(help.notes_heading.substr(0, help.notes_heading.find(" ("))), "\n");
  for (const std::string_view line : split(help.notes, '\n')) {
    if (line.empty()) continue;
    const std::string_view words = line.substr(line.find_first_not_of(' '));
    text += concat(line.starts_with("   ") ? "" : ".PP\n", roff(words), "\n");
  }
  return text;
}

std::string flags_section(const Subcommand& command) {
  std::string text, group = "Flags";
  for (const FlagText& flag : command.flags()) {
    if (!flag.group.empty() && flag.group != group) text += concat(".SS ", roff(group = flag.group), "\n");
    text += concat(".TP\n\\fB", roff("--" + flag.name), "\\fR", flag.value.empty() ? "" : " ", roff(flag.value), "\n",
                   roff(flag.help));
    if (!flag.default_value.empty()) text += concat(" (default ", roff(flag.default_value), ")");
    text += flag.is_required ? " (required)\n" : "\n";
  }
  return text.empty() ? "" : ".SH FLAGS\n" + text;
}

/// As they are, to be pasted.
std::string examples_section(const std::vector<std::string>& examples) {
  std::string text;
  for (const std::string& example : examples) {
    const std::string lines = wrapped_command(example, kPageColumns, 4);
    for (const std::string_view line : split(lines, '\n'))
      text += roff(line) + "\n";
  }
  return text.empty() ? "" : concat(".SH EXAMPLES\n.nf\n", text, ".fi\n");
}

bool has_options_of_plugins(const Subcommand& command) {
  return std::ranges::count(command.flags(), "strategy", &FlagText::name) > 0;
}

std::string manual_of(const Subcommand& command) {
  const HelpText help = command.help();
  const std::string name = concat("tessera ", command.name);
  std::string text = page_head(concat("tessera-", command.name), command.what);
  text += concat(".SH SYNOPSIS\n\\fB", name, "\\fR", roff(std::string_view(help.usage).substr(name.size())),
                 "\n.SH DESCRIPTION\n", roff(help.what), "\n", flags_section(command));
  if (has_options_of_plugins(command))
    text +=
        ".SH OPTIONS OF PLUGINS\nPlugins have options of their own, \\-\\-PLUGIN.OPTION=VALUE, which tessera plugins "
        "info NAME lists.\n";
  return text + notes_section(help) + examples_section(help.examples) + ".SH SEE ALSO\n.BR tessera (1)\n";
}

std::string manual_of_all() {
  std::string text = page_head("tessera", "trains models on many ranks");
  text += ".SH SYNOPSIS\n.B tessera\nCOMMAND [flags]\n.SH COMMANDS\n";
  for (const Subcommand& command : commands())
    text += concat(".TP\n\\fB", command.name, "\\fR ", roff(command.operands), "\n", roff(command.what), "; ",
                   roff(concat("tessera-", command.name)), "(1)\n");
  return text +
         ".SH FLAGS\n.TP\n\\fB\\-\\-help\\fR\nlist the commands; after a command: list its flags\n"
         ".TP\n\\fB\\-\\-version\\fR\nprint the version, and what this program was built from\n"
         ".SH EXIT STATUS\n0 success, 1 the run failed, 2 wrong usage, 128 + N ended by signal N\n";
}

}  // namespace

HelpText manual_help() {
  return {"tessera manual [COMMAND]",
          "Prints the manual page of a command, or that of tessera, for man.",
          {"tessera manual train | man -l -"}};
}

int manual_command(std::span<const std::string> arguments) {
  if (asks_for_help(arguments)) {
    std::cout << help_of(manual_help(), {});
    return 0;
  }
  const std::string name = arguments.empty() ? "tessera" : arguments[0];
  const auto command = std::ranges::find(commands(), name, &Subcommand::name);
  if (arguments.size() > 1)
    throw UsageError("tessera manual prints the page of one command; give one name, or none for the page of tessera");
  if (name != "tessera" && command == commands().end()) {
    std::string names;
    for (const Subcommand& one : commands())
      names += concat(names.empty() ? "" : " ", one.name);
    throw UsageError(
        concat("tessera has no command '", name, "'; give one of ", names, ", or none for the page of tessera"));
  }
  std::cout << (name == "tessera" ? manual_of_all() : manual_of(*command));
  return 0;
}

}  // namespace tessera::host
