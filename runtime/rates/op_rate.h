// The names under which the time of an op is kept, and how much work it is.
#pragma once

#include <string_view>

#include "program/program.h"
#include "rates/rates.h"

namespace tessera::host {

/// Ends the name of an op of the host.
inline constexpr std::string_view kOnHost = " on the host";

/// Whether a device computes the action as an op of its own: not a collective, a call, work of the host, or a copy from
/// or to another memory. Pure.
bool is_op(const Program& program, const Action& action);
/// Whether the host's processor computes it, beside the device.
bool is_host_op(const Program& program, const Action& action);

/// Of an op with operands of so many bytes. Pure.
OpRate unmeasured(const tsr_op& op, uint64_t num_bytes);
/// Of an action that is_op() or is_host_op(): what it is called, its operations and bytes; the seconds are 0. Equal
/// names take equal time. Pure.
OpRate unmeasured(const Program& program, const Action& action);

}  // namespace tessera::host
