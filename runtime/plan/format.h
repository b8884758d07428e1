// Words and numbers in reports of runs and plans.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/concat.h"
#include "plan/memory_report.h"

namespace tessera::host {

/// "init", "step", "step 1" (the second variant), "eval".
std::string program_name(const Program& program);
/// "parameters 1.5 MiB, gradients 1.5 MiB": the classes with any bytes.
std::string class_list(const BytesByClass& bytes);

/// "host memory", "files"; "memory 7" for one without a name.
std::string place_name(uint32_t memory);
/// "activations, optimizer"
std::string joined(const std::vector<std::string>& words);

/// The name of a class as a JSON key: "compute_copies".
std::string class_key(MemoryClass what);

/// All classes, in the order of reports.
std::array<MemoryClass, kNumMemoryClasses> all_memory_classes();

}  // namespace tessera::host
