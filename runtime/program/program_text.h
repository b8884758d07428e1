// A program as text: one action a line, stable and diffable. tests/support/program_parser/ reads it back.
//
//     program step  variant 0  coordinates dp=0
//     shape micro_batches=1 reduce_every=step dtype=f32 ...
//     stream comm.dp.gather
//     group dp
//
//     %1 = home h.0 persistent f32[3543936]
//
//     %12 = gathered h.0 f32[7087872]
//     41    comm.dp.gather  all_gather group=dp  r %1 src  w %12 dst
//     42    compute         forward h.0.qkv mb=0  r %12+1536:1769472 p:c_attn.weight  r %7 i:ln_1  w %13 o:qkv  # 41
//
// A buffer is declared where it appears first, persistent ones at the top: number, kind, name, marks,
// dtype[num_elements]. An action is its index in the list, stream, kind, segment and attributes, then its bindings:
// mode, buffer, "+offset:num_elements" unless the whole buffer is bound, and the segment's name for the slot. The
// indices of the actions that it waits for come after '#'. Of homes only names appear: the text holds neither their
// tables nor the layout. Names with special characters are quoted.
#pragma once

#include <string>

#include "program/program.h"

namespace tessera::host {

/// Equal programs have equal texts, and only those (up to ids: buffers and actions are numbered in order of appearance;
/// a program's homes must have different names). Throws INVALID_ARGUMENT or INTERNAL for ids, kinds, roles and modes
/// that do not exist. Without its coordinates the text is that of all ranks that do the same.
std::string print_program(const Program& program, bool with_coordinates = true);

}  // namespace tessera::host
