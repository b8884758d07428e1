// The parts of `tessera bench`, each in a file of its name. They take the arguments after their word, like commands.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "config/plugin_flag.h"
#include "rates/rates.h"

namespace tessera::host {

int bench_comm_command(std::span<const std::string> arguments, const std::vector<std::string>& argv);
int bench_device_command(std::span<const std::string> arguments);
int bench_disk_command(std::span<const std::string> arguments);

const CommandSyntax& bench_comm_syntax();
const CommandSyntax& bench_device_syntax();
const CommandSyntax& bench_disk_syntax();

/// Takes `--plugin.option=value` and `--plugin.option value` out of the arguments.
std::vector<PluginFlag> take_plugin_flags(std::vector<std::string>& arguments);

/// What `--rates FILE` of these commands writes. Throws UsageError, before anything is measured, for a file that may
/// not be written.
void check_rates_file(const std::string& path, bool overwrite);
void write_rates_file(const std::string& path, bool overwrite, const Rates& rates);

}  // namespace tessera::host
