#include "config/flag_help.h"

#include <boost/program_options.hpp>

#include "config/flag_table.h"
#include "config/plan_flags.h"

namespace tessera::host {
namespace {

bool is_required(FlagSet set, std::string_view name) {
  return (name == "model" && set != FlagSet::eval) ||
         (name == "data" && (set == FlagSet::train || set == FlagSet::eval)) ||
         (name == "rates" && set == FlagSet::bench);
}

/// The flags that plan and bench alone have.
std::vector<FlagText> own_flags(FlagSet set) {
  const std::string group = set == FlagSet::plan ? "Plan" : "Bench";
  boost::program_options::options_description own(group);
  std::vector<std::string> names;
  PlanFlags unused;
  if (set == FlagSet::plan) add_plan_flags(own, names, unused);
  if (set == FlagSet::bench) add_bench_flags(own, names, unused);
  std::vector<FlagText> texts;
  for (const auto& option : own.options()) {
    const bool is_switch = option->semantic()->max_tokens() == 0;
    texts.push_back({group, option->long_name(), is_switch ? "" : option->semantic()->name(), option->description(), "",
                     is_required(set, option->long_name())});
  }
  return texts;
}

}  // namespace

std::vector<FlagText> flag_texts(FlagSet set) {
  std::vector<FlagText> texts;
  for (const Flag& flag : train_flags())
    if (has_flag(set, flag))
      texts.push_back({std::string(flag.group), std::string(flag.name), std::string(flag.value), std::string(flag.help),
                       flag.value.empty() ? "" : flag.print(TrainConfig()), is_required(set, flag.name),
                       flag.is_repeatable});
  for (FlagText& text : own_flags(set))
    texts.push_back(std::move(text));
  texts.push_back({"Help", "help", "", "print this text", ""});
  return texts;
}

}  // namespace tessera::host
