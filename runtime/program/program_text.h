// A program as text: one action a line, stable and diffable, and back.
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
//     42    compute         forward h.0.qkv mb=0  r %12+1536:1769472 p:attn.c_attn.weight  r %7 i:ln_1  w %13 o:qkv  #
//     41
//
// A buffer is declared where it appears first, persistent ones at the top: number, kind, name, marks,
// dtype[num_elements]. An action is its place in the list, stream, kind, segment and attributes; then bindings: mode,
// buffer,
// "+offset:num_elements" unless it is the whole buffer, and the slot with what the segment calls it. After '#' stand
// the lines waited for. Homes are named only: their tables and the layout are not part of the text. Names with
// characters that the text needs stand in quotes.
#pragma once

#include <string>
#include <string_view>

#include "program/program.h"

namespace tessera::host {

/// Equal programs have equal texts, and only those (up to ids: buffers and actions are numbered in order of appearance;
/// a program's homes must have different names). Throws INVALID_ARGUMENT or INTERNAL for ids, kinds, roles and modes
/// that do not exist. Without its coordinates the text is that of all ranks that do the same.
std::string print_program(const Program& program, bool with_coordinates = true);

/// Reads what print_program wrote, against the same model and mesh. Layout stays empty; homes have id and name only.
/// Ids are given in order of appearance. Throws INVALID_ARGUMENT with the line number, the text there, and what was
/// expected. Actions are read, not judged: that is verify's part.
Program parse_program(std::string_view text, const Model& model, const Mesh& mesh);

}  // namespace tessera::host
