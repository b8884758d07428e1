// Words and numbers in reports of runs and plans.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/concat.h"
#include "plan/memory_report.h"

namespace tessera::host {

/// "parameters 1.5 MiB, gradients 1.5 MiB": the classes with any bytes.
std::string class_list(const BytesByClass& bytes);

/// "host memory", "files"; "memory 7" for one without a name.
std::string place_name(uint32_t memory);
/// "activations, optimizer"
std::string joined(const std::vector<std::string>& words);

/// A number above 0 with so many digits that count, and never with an exponent: 192734.2, 4 -> "192734"; 0.5, 4 ->
/// "0.5".
std::string number_text(double number, int num_digits);
/// A time above 0: 3.138e-05, 4 -> "31.38 us"; 0.41, 3 -> "0.41 s"; 1240, 3 -> "20 min 40 s".
std::string seconds_text(double seconds, int num_digits);

/// The name of a class as a JSON key: "compute_copies".
std::string class_key(MemoryClass what);

/// All classes, in the order of reports.
std::array<MemoryClass, kNumMemoryClasses> all_memory_classes();

}  // namespace tessera::host
