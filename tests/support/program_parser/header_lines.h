// The lines of a program's text above its buffers and actions.
#pragma once

#include "program/program.h"
#include "support/program_parser/text_line.h"

namespace tessera::testing {

/// Each reads a whole line into the program, whose mesh is set; all throw INVALID_ARGUMENT or NOT_FOUND.
void parse_program_line(Line& line, Program& program);
void parse_shape_line(Line& line, Program& program);
void parse_stream_line(Line& line, Program& program);
void parse_group_line(Line& line, Program& program);

/// "dp", "pp{0,3}", "world".
Group group_from(std::string_view text, const Mesh& mesh);

}  // namespace tessera::testing
