// A pass with a function between host and strategy, which sees and may change what each hands the other.
#pragma once

#include <functional>
#include <string>

#include "compile/edit/pass_runner.h"
#include "cpu-device/device.h"
#include "tessera/strategy.h"

namespace tessera::testing {

/// In place of a strategy's lower, which it usually calls with tables of its own.
using Lower = std::function<tsr_status(const tsr_program_view* view, const tsr_edit* edit, tsr_error* err)>;

/// Runs `lower` as the pass of a strategy of that name. Throws what the host makes of its error.
inline void run_interposed_pass(host::Program& program, const std::string& name, const Lower& lower) {
  tsr_strategy_interface table{};
  table.struct_size = sizeof table;
  table.lower = [](tsr_strategy* self, const tsr_program_view* view, const tsr_edit* edit, tsr_error* err) noexcept {
    return (*reinterpret_cast<const Lower*>(self))(view, edit, err);
  };
  host::run_pass(program, {name, 0, &table, reinterpret_cast<tsr_strategy*>(const_cast<Lower*>(&lower))},
                 [](const tsr_op& op) { return cpu::describe(op); });
}

}  // namespace tessera::testing
