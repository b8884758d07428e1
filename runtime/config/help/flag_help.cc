// The help is made from the table of flags (flag_table.h), so it lacks none and shows their true defaults. What the
// table does not have is here: the introduction of each command with its examples, which flags are required, and those
// about the command line itself (--config, --print-config, --help). Manual pages and completions of shells are made
// from flag_texts() too. The default strategy comes from the build (default_plugins.h); options of plugins follow in
// the caller, which has loaded them.

#include "config/help/flag_help.h"

#include <string_view>

#include "base/concat.h"
#include "config/default_plugins.h"
#include "config/flag_table.h"
#include "config/plan_flags.h"

namespace tessera::host {
namespace {

/// Without the models.
HelpText introduction(FlagSet set) {
  const std::string strategy(kDefaultStrategy);
  switch (set) {
    case FlagSet::plan:
      return {"tessera plan --model NAME|FOLDER [flags]",
              "Shows what a run would do and need, without running it. It takes all flags of train, so a command line "
              "can be planned unchanged; flags for data files, learning rates and metrics have no effect.",
              {"tessera plan --model my-model --nproc 64",
               "tessera plan --model my-model --nproc 4 --strategy " + strategy + " --device-memory 8GiB",
               "tessera plan --model my-model --mesh pp=2,dp=2 --strategy pp=pipeline,dp=" + strategy + " --schedule"}};
    case FlagSet::bench:
      return {"tessera bench rates --model NAME|FOLDER --rates FILE [flags]",
              "Measures on this machine how long each op of the job's step takes, how fast copies between device and "
              "host are and, with --offload-dir, files; plan --rates FILE predicts steps from it. It takes all flags "
              "of train; those for data, learning rates and metrics have no effect.",
              {"tessera bench rates --model my-model --rates rates.json"}};
    case FlagSet::eval:
      return {"tessera eval FOLDER --data PATH [flags]",
              "Prints the loss of the weights in FOLDER on all of the data, or on the first --eval-batches batches of "
              "it.",
              {"tessera eval runs/mine --data held-out.txt"}};
    case FlagSet::train:
      break;
  }
  return {"tessera train --model NAME|FOLDER --data PATH [flags]",
          "Trains a model, on one rank or on several.",
          {"tessera train --model my-model --data corpus.txt --steps 1000 --lr 1e-3",
           "tessera train --model my-model --data corpus.txt --nproc 2 --save runs/mine",
           "tessera train --model my-model --data corpus.txt --nproc 2 --resume runs/mine",
           "tessera train --help --strategy " + strategy + "   # lists its options too"}};
}

bool is_required(FlagSet set, std::string_view name) {
  return (name == "model" && set != FlagSet::eval) ||
         (name == "data" && (set == FlagSet::train || set == FlagSet::eval)) ||
         (name == "rates" && set == FlagSet::bench);
}

/// The default is the value in a TrainConfig that nothing has changed. That of a switch is not shown.
FlagText text_of(FlagSet set, const Flag& flag) {
  return {std::string(flag.group),
          std::string(flag.name),
          std::string(flag.value),
          std::string(flag.help),
          flag.value.empty() ? "" : flag.print(TrainConfig()),
          is_required(set, flag.name),
          flag.is_repeatable};
}

}  // namespace

std::vector<FlagText> flag_texts(FlagSet set) {
  std::vector<FlagText> texts;
  for (const PlanFlag& flag : own_flags(set))
    texts.push_back({set == FlagSet::plan ? "Plan" : "Bench", std::string(flag.name), std::string(flag.value),
                     std::string(flag.help), "", is_required(set, flag.name)});
  for (const Flag& flag : train_flags())
    if (has_flag(set, flag)) texts.push_back(text_of(set, flag));
  texts.push_back(
      {"Configuration", "config", "FILE",
       "read flags from this file, such as the config.json of a run's record; those on the command line win", ""});
  if (set != FlagSet::bench)
    texts.push_back(
        {"Configuration", "print-config", "", "print the resolved configuration, which --config reads, and exit", ""});
  texts.push_back({"Help", "help", "", "print this text, with the options of the plugins that are named", ""});
  return texts;
}

HelpText help_text(FlagSet set, std::string_view models) {
  HelpText text = introduction(set);
  text.notes_heading = "Models (--model)";
  text.notes = models;
  return text;
}

std::string flags_help(FlagSet set, std::string_view models) {
  return help_of(help_text(set, models), flag_texts(set));
}

}  // namespace tessera::host
