#include "cli/command_table.h"

#include "base/concat.h"
#include "cli/commands.h"
#include "config/flag_help.h"

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

template <const CommandSyntax& (*syntax)()>
std::vector<FlagText> of_syntax() {
  return flag_texts(syntax());
}

std::vector<FlagText> of_inspect() {
  return {{"", "json", "", "print one JSON object", ""},
          {"", "quick", "", "do not read the files of tensors", ""},
          {"", "help", "", "print the usage", ""}};
}

std::vector<FlagText> of_plugins() {
  return {{"", "json", "", "print JSON", ""},
          {"", "plugin-dir", "FOLDER", "another folder of plugins", "", false, true},
          {"", "help", "", "print the usage", ""}};
}

std::vector<FlagText> none() {
  return {};
}

constexpr Command kCommands[] = {
    {"train", "", "train a model", train_command, of_set<FlagSet::train>},
    {"eval", "FOLDER", "the loss of a model on data", eval_command, of_set<FlagSet::eval>},
    {"generate", "FOLDER", "continue a text with a model", run<generate_command>, of_syntax<generate_syntax>},
    {"convert", "FOLDER OUT", "a model for Hugging Face's transformers", run<convert_command>,
     of_syntax<convert_syntax>},
    {"plan", "", "plan a run without running it: memory and programs of every rank", run<plan_command>,
     of_set<FlagSet::plan>},
    {"inspect", "CHECKPOINT", "show what is in a checkpoint, and compare its checksums", run<inspect_command>,
     of_inspect},
    {"bench", "rates", "measure this machine, for plan --rates to predict the time of a step", run<bench_command>,
     of_set<FlagSet::bench>},
    {"plugins", "list|info NAME", "list the plugins, or describe one and its options", run<plugins_command>,
     of_plugins},
    {"tokenize", "IN OUT", "text to tokens, by a tokenizer.json", run<tokenize_command>, of_syntax<tokenize_syntax>},
    {"completion", "bash|zsh", "print what completes commands and flags in this shell", run<completion_command>, none},
    {"manual", "COMMAND", "print the manual page of a command, for man", run<manual_command>, none},
};

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

std::string commands_help() {
  const auto left = [](const Command& command) {
    return concat("  ", command.name, command.operands.empty() ? "" : " ", command.operands);
  };
  size_t width = 0;
  for (const Command& command : kCommands)
    width = std::max(width, left(command).size());
  std::string text = "usage: tessera COMMAND [flags]\n\n";
  for (const Command& command : kCommands)
    text += concat(left(command), std::string(width + 2 - left(command).size(), ' '), command.what, "\n");
  return text +
         "\ntessera COMMAND --help lists the flags of a command.\n\n"
         "  --help, --version\n\n"
         "exit codes: 0 success, 1 the run failed, 2 wrong usage, 128 + N ended by signal N\n";
}

}  // namespace tessera::host
