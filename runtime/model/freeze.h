// Parameters that are not trained.
#pragma once

#include <span>
#include <string>

#include "model/model.h"

namespace tessera::host {

/// Freezes every parameter whose name matches one of the patterns (fnmatch: *, ?, [a-z]; a star also matches dots), and
/// gives the units their layout. Throws INVALID_ARGUMENT, with the pattern, for one that matches nothing, and when no
/// parameter is left to be trained.
void freeze_parameters(Model& model, std::span<const std::string> patterns);
/// Freezes every parameter, of a model that is not trained.
void freeze_all(Model& model);

}  // namespace tessera::host
