// Checks that enough file descriptors are left, before anything else in create.
#pragma once

#include <string>

#include "tessera/error.hpp"

namespace tessera::gloo_comm {

/// Throws RESOURCE_EXHAUSTED unless this process can open `num_more` more files or sockets now; returns how many of
/// `num_wished` additional ones it could open. `where` is the prefix of the error: "[gloo-comm] dp.gather rank 3".
int require_descriptors(const std::string& where, int num_more, int num_wished);

/// RESOURCE_EXHAUSTED with the number of files that this process would have open with `num_more`, the limit, and how to
/// raise it.
Error too_few_descriptors(const std::string& where, int num_more);

}  // namespace tessera::gloo_comm
