// Whether there are descriptors enough, asked before anything else of create.
#pragma once

#include <string>

#include "tessera/error.hpp"

namespace tessera::gloo_comm {

/// Throws RESOURCE_EXHAUSTED unless this process can open `num_more` files, sockets among them, now; returns how many
/// of `num_wished` others it could open beside them. `where` begins the sentence: "[gloo-comm] dp.gather rank 3".
int require_descriptors(const std::string& where, int num_more, int num_wished);

/// RESOURCE_EXHAUSTED with how many files this process would have open with `num_more`, what the limit is, and how it
/// is raised.
Error too_few_descriptors(const std::string& where, int num_more);

}  // namespace tessera::gloo_comm
