// The subcommands of `tessera bench`, each in the file of its name. They take the arguments after their name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "config/plugin_flag.h"
#include "rates/rates.h"
#include "tessera/core.h"

namespace tessera::host {

int bench_comm_command(std::span<const std::string> arguments, const std::vector<std::string>& argv);
int bench_device_command(std::span<const std::string> arguments);
int bench_disk_command(std::span<const std::string> arguments);

const CommandSyntax& bench_comm_syntax();
const CommandSyntax& bench_device_syntax();
const CommandSyntax& bench_disk_syntax();

/// Flags that several of them have.
inline constexpr CommandFlag kPluginDirFlag{"plugin-dir", "FOLDER", "search this folder for plugins too"};
inline constexpr CommandFlag kRatesFlag{"rates", "FILE",
                                        "also write the results for plan --rates to this file, whose other rates stay"};
inline constexpr CommandFlag kOverwriteFlag{"overwrite", "",
                                            "let --rates replace the whole file, also one that tessera did not write"};

struct NamedDtype {
  std::string_view name;
  tsr_dtype dtype;
};

/// The help, and the options of the plugins that --comm and --device name.
std::string bench_part_help(const CommandSyntax& syntax, const CommandLine& line);

/// Removes `--plugin.option=value` and `--plugin.option value` from the arguments and returns them.
std::vector<PluginFlag> take_plugin_flags(std::vector<std::string>& arguments);

/// The file that --rates FILE names, if it is given; --overwrite lets it replace any file.
class RatesFile {
 public:
  RatesFile() = default;
  /// Throws UsageError, before anything is measured, for a file that may not be written.
  explicit RatesFile(const CommandLine& line);
  bool is_wanted() const { return !path_.empty(); }
  /// Writes the rates and reports it on standard output, if the file is wanted.
  void write(const Rates& rates) const;

 private:
  std::string path_;
  bool overwrite_ = false;
};

}  // namespace tessera::host
