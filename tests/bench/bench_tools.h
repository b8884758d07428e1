// What benchmarks share.
#pragma once

#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tessera::testing {

using BenchOptions = std::map<std::string, std::string>;

/// `defaults` with what the command line gives; throws for an option that is not among them, or that has no value.
inline BenchOptions read_options(int argc, char** argv, BenchOptions defaults) {
  for (int i = 1; i < argc; i += 2) {
    if (!defaults.contains(argv[i])) throw std::invalid_argument(std::string("unknown option ") + argv[i]);
    if (i + 1 == argc) throw std::invalid_argument(std::string(argv[i]) + " has no value after it");
    defaults[argv[i]] = argv[i + 1];
  }
  return defaults;
}

/// The same with --size, which gives the options that the command line does not; of `defaults` it is the default.
inline BenchOptions read_sized_options(int argc, char** argv, BenchOptions defaults,
                                       const std::map<std::string, BenchOptions>& sizes) {
  std::string names;
  for (const auto& [size, values] : sizes) {
    names += (names.empty() ? "" : ", ") + size;
    for (const auto& [name, value] : values)
      defaults[name] = "";
  }
  BenchOptions options = read_options(argc, argv, std::move(defaults));
  const auto size = sizes.find(options["--size"]);
  if (size == sizes.end()) throw std::invalid_argument("--size is one of " + names);
  for (const auto& [name, value] : size->second)
    if (options[name].empty()) options[name] = value;
  return options;
}

/// What main returns: 0 after `bench`, 1 if it threw, with the error on standard error.
template <class Bench>
int run_bench(const char* name, const Bench& bench) {
  try {
    bench();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << name << ": " << error.what() << '\n';
    return 1;
  }
}

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values.size() % 2 ? values[values.size() / 2]
                           : (values[values.size() / 2 - 1] + values[values.size() / 2]) / 2;
}

inline std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  utsname name{};
  return uname(&name) == 0 ? name.machine : "unknown";
}

}  // namespace tessera::testing
