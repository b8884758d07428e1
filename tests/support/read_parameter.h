// Parameters as a rank has them.
#pragma once

#include <span>

#include "exec/rank_runtime.h"

namespace tessera::testing {

/// Reads the rank's pieces of a parameter's value into their places; other elements are left alone. [num_elements]
inline void read_parameter(host::RankRuntime& runtime, int parameter, std::span<float> out) {
  const host::Program& program = runtime.programs().first();
  for (const host::Home& home : program.homes) {
    const host::HomeRole& role = home.roles[home.roles[TSR_HOME_MASTER].buffer ? TSR_HOME_MASTER : TSR_HOME_VALUE];
    for (const tsr_piece& piece : home.pieces)
      if (piece.parameter == parameter)
        runtime.read_values(program.buffer(role.buffer), role.offset + piece.home_offset,
                            out.subspan(piece.parameter_offset, piece.num_elements));
  }
}

}  // namespace tessera::testing
