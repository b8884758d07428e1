// The program `tessera`: sets up the process, runs the command and turns errors into exit codes. The order of main():
//
//     take the ending     shared with our launcher, before a plugin can touch the environment
//     supervise           forks, so before there are threads; what follows runs in the child
//     report crashes      before any plugin is loaded
//     standard files      before any file is opened, which could otherwise get the number of a closed one
//     mark the process    from here on, a fork by a plugin is noticed
//     the command         loads plugins, starts threads
//     flush the output    standard output that cannot be written is a failure too

#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <new>
#include <span>
#include <string_view>

#include "base/concat.h"
#include "base/ending.h"
#include "base/log.h"
#include "base/terminal.h"
#include "cli/command_table.h"
#include "cli/standard_files.h"
#include "cli/version.h"
#include "config/help/did_you_mean.h"
#include "config/usage_error.h"
#include "guard/crash_report.h"
#include "guard/process_copy.h"
#include "guard/supervisor.h"
#include "launch/launched_ranks.h"
#include "launch/process_setup.h"
#include "launch/rank_environment.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

// Names that are kept for commands to come, and told apart from typos.
constexpr std::array kLater = {"check", "simulate", "coordinator", "worker"};

[[noreturn]] void refuse_command(const std::string& command) {
  std::vector<std::string> known;
  std::string list;
  for (const Subcommand& one : commands()) {
    if (!known.empty() && known.back() == one.name) continue;
    known.emplace_back(one.name);
    list += concat(list.empty() ? "" : ", ", one.name);
  }
  if (std::ranges::count(kLater, command) > 0)
    throw UsageError(concat("command ", command, " is not supported yet; supported: ", list));
  const std::string guess = nearest(command, known);
  throw UsageError(concat("unknown command '", command, "'",
                          guess.empty() ? concat("; the commands are ", list, " (see tessera --help)")
                                        : concat("; did you mean ", guess, "?")));
}

int run_command(const std::vector<std::string>& argv) {
  if (argv.size() < 2) {
    std::cerr << commands_help();
    return 2;
  }
  const std::string& name = argv[1];
  if (name == "help" && argv.size() > 2) {
    std::vector<std::string> asked = {argv[0]};
    asked.insert(asked.end(), argv.begin() + 2, argv.end());
    asked.emplace_back("--help");
    return run_command(asked);
  }
  if (name == "--help" || name == "-h" || name == "help") {
    std::cout << commands_help();
    return 0;
  }
  if (name == "--version") {
    std::cout << version_text();
    return 0;
  }
  const auto command = std::ranges::find(commands(), name, &Subcommand::name);
  if (command == commands().end()) refuse_command(name);
  if (::getpid() == 1) announce_ending_signals();  // of a container: default actions do not end it
  if (name != "doctor") require_descriptors();     // it reports the limit among others
  require_stack();
  return command->run(std::span(argv).subspan(2), argv);
}

struct OutOfMemory : std::bad_alloc {
  const char* what() const noexcept override {
    return "out of memory: the system has no more for this process; make the run smaller (--batch-size, --grad-accum, "
           "a smaller model), raise ulimit -v where it is set, or use a machine with more";
  }
};

/// Makes a failed allocation throw a std::bad_alloc whose what() is a sentence for users. What throwing needs is loaded
/// here, while there is memory for it: glibc ends a process that cannot load libgcc_s.
void prepare_for_out_of_memory() {
  void* frame = nullptr;
  ::backtrace(&frame, 1);
  std::set_new_handler([] { throw OutOfMemory(); });
}

/// Whether the arguments may name a plugin that is not in the default folder: in a file of settings too.
bool may_use_plugins_from_elsewhere(std::span<char* const> arguments) {
  return std::ranges::any_of(arguments, [](std::string_view argument) {
    return argument.starts_with("--plugin-dir") || argument.starts_with("--config") ||
           argument.find(".so") != std::string_view::npos;
  });
}

/// Relative paths cannot be made absolute there.
bool is_in_a_folder_that_is_gone() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::current_path(error);
  return folder.empty() && error == std::errc::no_such_file_or_directory;
}

/// Runs the command; errors are printed and become the exit code. A folder that is gone from the start is wrong usage,
/// and one that goes while the command runs an error like any other.
int run_guarded(const std::vector<std::string>& argv) {
  const bool was_gone = is_in_a_folder_that_is_gone();
  try {
    return run_command(argv);
  } catch (const UsageError& e) {
    print_error(e.what());
    return 2;
  } catch (const std::filesystem::filesystem_error& e) {
    const bool is_gone = is_in_a_folder_that_is_gone();
    print_error(is_gone ? "the current folder is gone; change to one that exists" : sentence_of(e));
    return is_gone && was_gone ? 2 : 1;
  } catch (const std::exception& e) {
    print_error(sentence_of(e));
    return 1;
  }
}

/// A rank that our launcher has started shares its ending with it.
bool take_ending_of_rank() {
  const char* const file = std::getenv(kEndingsFile);
  const char* const rank = std::getenv("TESSERA_RANK");
  return is_started_by_launcher() && file && rank && take_ending(std::atoi(file), std::atoi(rank));
}

/// The exit code for main. Where a parent watches for the end, plugins from elsewhere may be here, and none of their
/// destructors runs: one may hang, crash, or end the process with another code.
int finish(int exit_code, bool is_watched) {
  ending->waits_for_reader = true;
  write_what_is_kept(UntilRead::forever);
  ending->waits_for_reader = false;
  ending->has_finished = exit_code == 0;
  ending->is_told = true;
#ifndef TESSERA_IS_SANITIZED  // the search for leaks is at the exit
  if (is_watched) end_process(exit_code);
#endif
  return exit_code;
}

}  // namespace
}  // namespace tessera::host

int main(int argc, char** argv) {
  bool is_watched = tessera::host::take_ending_of_rank();  // before a plugin changes the environment
  const std::span arguments(argv, static_cast<size_t>(argc));
  // Ranks of our launcher have a parent that sees how they end.
  if (tessera::host::may_use_plugins_from_elsewhere(arguments) && !tessera::host::is_started_by_launcher()) {
    if (const auto exit_code = tessera::host::supervise()) return *exit_code;
    is_watched |= tessera::host::is_supervised();
  }
  tessera::host::report_crashes();
  tessera::host::prepare_for_out_of_memory();
  // Inherited, these make OpenBLAS use kernels of an older processor, which give other bits.
  unsetenv("OPENBLAS_CORETYPE");
  unsetenv("OPENBLAS_L2_SIZE");
  // libgomp would bind this thread as these say when a device is loaded, and ranks share the cores that it has left.
  for (const char* name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"})
    unsetenv(name);
  // OpenMP threads that wait longer than this sleep: with more threads than cores, spinning takes cores from threads
  // that have work.
  setenv("GOMP_SPINCOUNT", "2000", 0);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit of file size then fails with an error that is reported
  tessera::host::open_standard_files();
  tessera::host::mark_process();
  static tessera::host::StandardOutput output;  // static: the stack may be small
  const int exit_code = tessera::host::run_guarded({argv, argv + argc});
  const std::string unwritten = output.finish();
  tessera::host::end_of_program();
  if (!unwritten.empty() && !output.is_reported()) tessera::host::print_error(tessera::host::kCannotWrite + unwritten);
  return tessera::host::finish(unwritten.empty() || exit_code != 0 ? exit_code : 1, is_watched);
}
