// `tessera inspect CHECKPOINT`: what is in a checkpoint, and whether it is what was written. A note about the choice of
// the checkpoint goes to standard error, so that --json prints JSON alone. Damage is a result, with exit code 1; a
// folder without a checkpoint is wrong usage, with 2.

#include <iostream>

#include "base/concat.h"
#include "base/log.h"
#include "checkpoint/inspect.h"
#include "checkpoint/save_folder.h"
#include "cli/commands.h"
#include "config/usage_error.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr std::string_view kUsage = "tessera inspect CHECKPOINT [--json] [--quick]";
[[noreturn]] void refuse(const std::string& what) {
  throw UsageError(concat(what, "; usage: ", kUsage));
}

struct InspectFlags {
  std::string checkpoint;
  bool as_json = false, is_quick = false, help = false;
};

InspectFlags parse(std::span<const std::string> arguments) {
  InspectFlags flags;
  for (const std::string& word : arguments) {
    if (word == "--json")
      flags.as_json = true;
    else if (word == "--quick")
      flags.is_quick = true;
    else if (word == "--help" || word == "-h")
      flags.help = true;
    else if (word.starts_with("-"))
      refuse("tessera inspect has no flag " + word);
    else if (!flags.checkpoint.empty())
      refuse(concat("tessera inspect takes one checkpoint, but got '", flags.checkpoint, "' and '", word, "'"));
    else
      flags.checkpoint = word;
  }
  if (flags.checkpoint.empty() && !flags.help) refuse("tessera inspect needs a checkpoint");
  return flags;
}

}  // namespace

HelpText inspect_help() {
  return {std::string(kUsage),
          "CHECKPOINT is a step's folder, or the folder of --save, of which the newest is shown. All checksums are "
          "compared; exit code 1 means that something is not what was written.",
          {"tessera inspect runs/mine"}};
}

std::vector<FlagText> inspect_flags() {
  return {{"Flags", "json", "", "print one JSON object", ""},
          {"Flags", "quick", "", "read the index only, and compare no checksums of tensors", ""},
          {"Flags", "help", "", "print this text", ""}};
}

int inspect_command(std::span<const std::string> arguments) {
  const InspectFlags flags = parse(arguments);
  if (flags.help) {
    std::cout << help_of(inspect_help(), inspect_flags());
    return 0;
  }
  const CheckpointChoice choice = choose_checkpoint(flags.checkpoint);
  if (choice.folders.empty())
    throw UsageError(
        concat(flags.checkpoint, " holds no checkpoint; give a folder that holds step-N folders, or one of these"));
  if (!choice.note.empty()) print_error(choice.note);
  const std::string& chosen = choice.folders.front();
  const Checkpoint checkpoint = naming_removal(flags.checkpoint, chosen, [&] { return Checkpoint(chosen); });
  const Damage damage = flags.is_quick ? Damage() : checkpoint.verify();
  std::cout << (flags.as_json ? inspect_json(checkpoint, damage) : inspect_text(checkpoint, damage));
  return damage && !damage->empty() ? 1 : 0;
}

}  // namespace tessera::host
