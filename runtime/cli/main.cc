// The program `tessera`: sets up the process, runs the command and turns errors into exit codes.
#include <execinfo.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <new>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/standard_files.h"
#include "config/did_you_mean.h"
#include "config/usage_error.h"
#include "tessera/core.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr std::string_view kHelp =
    "usage: tessera COMMAND [flags]\n\n"
    "  train            train a model (tessera train --help lists the flags)\n"
    "  plan             plan a run without running it: memory and programs of every rank\n"
    "  bench rates      measure this machine, for plan --rates to predict the time of a step\n"
    "  plugins list     list the plugins\n"
    "  plugins info P   describe plugin P and its options\n\n"
    "  --help, --version\n\n"
    "exit codes: 0 success, 1 the run failed, 2 wrong usage, 128 + N ended by signal N\n";

constexpr std::array kLater = {"check", "simulate", "convert", "generate", "doctor", "coordinator", "worker"};

int run_command(const std::vector<std::string>& argv) {
  if (argv.size() < 2) {
    std::cerr << kHelp;
    return 2;
  }
  const std::string& command = argv[1];
  const std::span<const std::string> arguments(argv.data() + 2, argv.size() - 2);
  if (command == "--help" || command == "-h" || command == "help") {
    std::cout << kHelp;
    return 0;
  }
  if (command == "--version") {
    std::cout << "tessera " << TESSERA_VERSION << ", plugin ABI " << TSR_ABI_MAJOR << '.' << TSR_ABI_MINOR << '\n';
    return 0;
  }
  if (command == "train") return train_command(arguments, argv);
  if (command == "plan") return plan_command(arguments);
  if (command == "plugins") return plugins_command(arguments);
  if (command == "bench") return bench_command(arguments);
  for (std::string_view later : kLater)
    if (command == later)
      throw UsageError("command " + command + " is not supported yet; supported: train, plan, bench, plugins");
  const std::array<std::string, 4> known = {"train", "plan", "bench", "plugins"};
  const std::string guess = nearest(command, known);
  throw UsageError(
      "there is no command '" + command + "'" +
      (guess.empty() ? "; give train, plan, bench or plugins (see tessera --help)" : "; did you mean " + guess + "?"));
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

/// Runs the command; errors are printed and become the exit code.
int run_guarded(const std::vector<std::string>& argv) {
  try {
    return run_command(argv);
  } catch (const UsageError& e) {
    print_error(e.what());
    return 2;
  } catch (const std::exception& e) {
    print_error(sentence_of(e));
    return 1;
  }
}

}  // namespace
}  // namespace tessera::host

int main(int argc, char** argv) {
  tessera::host::prepare_for_out_of_memory();
  // Inherited, these make OpenBLAS use kernels of an older processor, which give other bits.
  unsetenv("OPENBLAS_CORETYPE");
  unsetenv("OPENBLAS_L2_SIZE");
  // OpenMP threads that wait longer than this sleep: with more threads than cores, spinning takes cores from threads
  // that have work.
  setenv("GOMP_SPINCOUNT", "20000", 0);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit of file size then fails with an error that is reported
  tessera::host::open_standard_files();
  tessera::host::StandardOutput output;
  const int exit_code = tessera::host::run_guarded({argv, argv + argc});
  const std::string unwritten = output.finish();
  if (unwritten.empty()) return exit_code;
  tessera::host::print_error("cannot write to standard output: " + unwritten);
  return exit_code == 0 ? 1 : exit_code;
}
