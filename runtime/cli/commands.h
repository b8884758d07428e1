// The commands of `tessera`, each implemented in a file of its name: train_command.cc (and eval), plan_command.cc,
// inspect_command.cc, plugins_command.cc, bench/bench_command.cc, doctor_command.cc, tokenize_command.cc,
// generate_command.cc, convert_command.cc, trace_command.cc, report_command.cc, completion_command.cc,
// manual_command.cc. command_table.h lists them. A command takes the arguments after its name and returns the exit
// code: 0 success, 1 the run failed. Wrong usage is thrown as UsageError, which becomes exit code 2.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/command_line.h"

namespace tessera::host {

int train_command(std::span<const std::string> arguments, const std::vector<std::string>& argv);
int eval_command(std::span<const std::string> arguments, const std::vector<std::string>& argv);
int plan_command(std::span<const std::string> arguments);
int inspect_command(std::span<const std::string> arguments);
int plugins_command(std::span<const std::string> arguments);
int convert_command(std::span<const std::string> arguments);
int generate_command(std::span<const std::string> arguments);
int tokenize_command(std::span<const std::string> arguments);
int bench_command(std::span<const std::string> arguments, const std::vector<std::string>& argv);
int doctor_command(std::span<const std::string> arguments, const std::vector<std::string>& argv);
int trace_command(std::span<const std::string> arguments);
int report_command(std::span<const std::string> arguments);
int completion_command(std::span<const std::string> arguments);
int manual_command(std::span<const std::string> arguments);

const CommandSyntax& convert_syntax();
const CommandSyntax& generate_syntax();
const CommandSyntax& tokenize_syntax();
const CommandSyntax& doctor_syntax();
const CommandSyntax& trace_syntax();
const CommandSyntax& report_syntax();

/// Of the commands that read their few arguments themselves: what their help has besides flags, and the flags.
HelpText bench_help();
HelpText inspect_help();
HelpText plugins_help();
HelpText completion_help();
HelpText manual_help();
std::vector<FlagText> inspect_flags();
std::vector<FlagText> plugins_flags();

}  // namespace tessera::host
