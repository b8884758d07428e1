// Programs from their text, as tests write it by hand and compare it. The runtime only prints (program/program_text.h).
#pragma once

#include <string_view>

#include "program/program.h"

namespace tessera::testing {

/// Reads what print_program wrote, against the same model and mesh. The layout stays empty; homes have id and name
/// only. Ids are given in order of appearance. Throws INVALID_ARGUMENT with the line's number, the text there, and
/// what was expected. Whether the program makes sense is for verify/ to check.
host::Program parse_program(std::string_view text, const host::Model& model, const host::Mesh& mesh);

}  // namespace tessera::testing
