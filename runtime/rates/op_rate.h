// The names under which the time of an op is kept, and how much work it is.
#pragma once

#include "program/program.h"
#include "rates/rates.h"

namespace tessera::host {

/// Whether a device computes the action as an op of its own: not a collective, a call, work of the host, or a copy from
/// or to another memory. Pure.
bool is_op(const Program& program, const Action& action);

/// Of an action that is_op(): what it is called, its operations and bytes; the seconds are 0. Equal names take equal
/// time. Pure.
OpRate unmeasured(const Program& program, const Action& action);

}  // namespace tessera::host
