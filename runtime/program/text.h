// A program as text: one action a line, stable and diffable, and back.
//
//     program step  variant 0  coordinates dp=0
//     stream comm.dp.gradient
//     group dp
//     %12 = gathered h.0 f32[7087872]
//     41  comm.dp.gather  all_gather group=dp  r %3:0+1024 src  w %12 dst
//     42  compute  forward h.0.qkv mb=0  r %12+1536:1769472 p:c_attn.weight ...  # 41
//
// A binding is mode, buffer, "+offset:num_elements" unless it is the whole buffer, and the slot with the name of what the
// segment calls it. After '#' stand the lines waited for. Home tables and layouts are not part of the text.
#pragma once

#include <string>
#include <string_view>

#include "program/program.h"

namespace tessera {

/// Equal programs have equal texts, and only those (up to ids: buffers and actions are numbered in order of appearance).
std::string print_program(const Program& program);

/// Reads what print_program wrote, against the same model and mesh; homes and layout stay empty (home ids are kept).
/// Throws INVALID_ARGUMENT with the line number, the text there, and what was expected.
Program parse_program(std::string_view text, const Model& model, const Mesh& mesh);

/// sha256 (hex) of the text, for comparison between ranks.
std::string program_hash(const Program& program);

}  // namespace tessera
