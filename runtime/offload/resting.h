// Persistent buffers that are not in device memory between programs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "program/program.h"
#include "tessera/offload.h"

namespace tessera::host {

/// Where a persistent buffer rests when not in device memory, and how far ahead its program fetches it.
struct RestingBuffer {
  uint32_t kind = 0;
  int strategy = -1;
  std::string name;
  tsr_leave leave{};  ///< memory, ahead and linger
};

/// The persistent items of `leaves`, by kind and name, which are the same in all programs of a rank.
std::vector<RestingBuffer> resting_buffers(const Program& program, std::span<const tsr_leave> leaves);

/// Makes the program find these buffers where they rest: fetches them for its uses and evicts them after each.
void follow_resting_buffers(Program& program, std::span<const RestingBuffer> resting,
                            bool device_memory_is_host = true);

/// For a variant of the step beside others: what it does not use rests where another variant has left it. Throws
/// INVALID_ARGUMENT for a buffer that it uses in device memory and that rests elsewhere in another variant.
void agree_on_resting_buffers(Program& step, std::span<const RestingBuffer> resting);

}  // namespace tessera::host
