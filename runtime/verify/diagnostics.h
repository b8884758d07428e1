// Collects diagnostics, and names actions, ranges and slots in them.
#pragma once

#include <string>

#include "program/program.h"
#include "verify/verify.h"

namespace tessera::host {

/// The first diagnostics of a check; further ones are only counted.
class DiagnosticList {
 public:
  void add(std::string diagnostic);
  bool empty() const { return diagnostics_.empty(); }
  Diagnostics take();

 private:
  static constexpr size_t kMaxDiagnostics = 50;
  Diagnostics diagnostics_;
  size_t num_left_out_ = 0;
};

/// The functions below accept any program, however wrong: none of them throws.

/// "rank 3 #41 comm.dp.gather all_gather h.2"; the rank is the program's, or the one given (-1: none).
std::string action_text(const Program& program, size_t index);
std::string action_text(const Program& program, int rank, size_t index);
/// The object of the action, after a space: its segment, its home, or the first buffer it binds; else empty.
std::string object_text(const Program& program, const Action& action);
/// "gathered h.0" and "gathered h.0[1536:4096]".
std::string buffer_text(const Buffer& buffer);
std::string range_text(const Program& program, const Binding& binding);
std::string range_text(const Buffer& buffer, uint64_t begin, uint64_t end);
/// "p0 (h.0.ln_1.weight)": role, index, and what the action's segment calls it.
std::string slot_text(const Program& program, const Action& action, uint32_t slot);
/// "pp {0,3}", "world".
std::string group_text(const Program& program, const Group& group);

bool is_known_action(uint32_t kind);

bool is_index(int64_t index, const auto& of) {
  return index >= 0 && index < static_cast<int64_t>(of.size());
}

/// The buffer or home with that id, or null. The ids must be ascending.
const Buffer* buffer_or_null(const Program& program, uint64_t id);
const Home* home_or_null(const Program& program, uint64_t id);

}  // namespace tessera::host
