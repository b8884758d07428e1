// One row for each command: its name, the words after it, a line for the help, what runs it, and its flags. The
// program, --help, the completions and the manual pages are all made from this table, so none of them lacks a command.
// Flags come from the tables that parse them: those of train, eval, plan and bench rates from config/flag_table.cc,
// those of most others from their CommandSyntax.

#include "cli/command_table.h"

#include <algorithm>

#include "base/concat.h"
#include "cli/bench/bench_commands.h"
#include "cli/commands.h"
#include "config/help/flag_help.h"
#include "model/architectures.h"

namespace tessera::host {
namespace {

using Arguments = std::span<const std::string>;
using Argv = std::vector<std::string>;

/// Runs a command that needs no argv.
template <int (*command)(Arguments)>
int run(Arguments arguments, const Argv&) {
  return command(arguments);
}

template <FlagSet set>
std::vector<FlagText> of_set() {
  return flag_texts(set);
}

template <FlagSet set>
HelpText help_of_set() {
  return help_text(set, models_help());
}

template <const CommandSyntax& (*syntax)()>
HelpText help_of_syntax() {
  return help_text(syntax());
}

template <const CommandSyntax& (*syntax)()>
std::vector<FlagText> of_syntax() {
  return flag_texts(syntax());
}

/// Of all parts, in groups that name the part.
std::vector<FlagText> of_bench() {
  std::vector<FlagText> texts;
  for (const auto& [part, syntax] : {std::pair("bench comm", &bench_comm_syntax()),
                                     {"bench device", &bench_device_syntax()},
                                     {"bench disk", &bench_disk_syntax()}})
    for (FlagText& text : flag_texts(*syntax)) {
      text.group = part;
      texts.push_back(std::move(text));
    }
  for (FlagText& text : flag_texts(FlagSet::bench)) {
    text.group = concat("bench rates: ", text.group);
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<FlagText> none() {
  return {};
}

constexpr Subcommand kCommands[] = {
    {"train", "", "train a model", train_command, of_set<FlagSet::train>, help_of_set<FlagSet::train>},
    {"eval", "FOLDER", "evaluate a model on data", eval_command, of_set<FlagSet::eval>, help_of_set<FlagSet::eval>},
    {"generate", "FOLDER", "continue a text with a model", run<generate_command>, of_syntax<generate_syntax>,
     help_of_syntax<generate_syntax>},
    {"convert", "FOLDER OUT", "write a model for Hugging Face transformers", run<convert_command>,
     of_syntax<convert_syntax>, help_of_syntax<convert_syntax>},
    {"plan", "", "show what a run would need, without running it", run<plan_command>, of_set<FlagSet::plan>,
     help_of_set<FlagSet::plan>},
    {"inspect", "CHECKPOINT", "show what is in a checkpoint, and compare its checksums", run<inspect_command>,
     inspect_flags, inspect_help},
    {"bench", "comm|device|disk|rates", "measure this machine, also for plan --rates", bench_command, of_bench,
     bench_help},
    {"doctor", "", "check this machine, and say how to fix what does not work", doctor_command,
     of_syntax<doctor_syntax>, help_of_syntax<doctor_syntax>},
    {"trace", "FILE", "show where the time of a run went (train --profile)", run<trace_command>,
     of_syntax<trace_syntax>, help_of_syntax<trace_syntax>},
    {"report", "FOLDER", "make a web page of the record of a run (train --out)", run<report_command>,
     of_syntax<report_syntax>, help_of_syntax<report_syntax>},
    {"plugins", "list|info NAME", "list the plugins, or describe one and its options", run<plugins_command>,
     plugins_flags, plugins_help},
    {"tokenize", "IN OUT", "turn text into tokens, with a tokenizer.json", run<tokenize_command>,
     of_syntax<tokenize_syntax>, help_of_syntax<tokenize_syntax>},
    {"completion", "bash|zsh", "print the completion script of this shell", run<completion_command>, none,
     completion_help},
    {"manual", "COMMAND", "print the manual page of a command, for man", run<manual_command>, none, manual_help},
};

}  // namespace

std::span<const Subcommand> commands() {
  return kCommands;
}

std::string commands_help() {
  const auto left = [](const Subcommand& command) {
    return concat("  ", command.name, command.operands.empty() ? "" : " ", command.operands);
  };
  size_t width = 0;
  for (const Subcommand& command : kCommands)
    width = std::max(width, left(command).size());
  std::string text = "usage: tessera COMMAND [flags]\n\n";
  for (const Subcommand& command : kCommands)
    text += concat(left(command), std::string(width + 2 - left(command).size(), ' '),
                   wrapped(command.what, kHelpColumns, static_cast<int>(width) + 2), "\n");
  return text +
         "\ntessera COMMAND --help lists the flags of a command.\n\n"
         "  --help, --version\n\n"
         "exit codes: 0 success, 1 the run failed, 2 wrong usage, 128 + N signal N\n";
}

}  // namespace tessera::host
