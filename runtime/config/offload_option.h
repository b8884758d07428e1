// The value of --offload: the policies that decide what leaves device memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::host {

/// Reads "activations" or "activations,./x/own-offload.so": names, or paths of plugins, in the order in which they
/// decide; none of "none". Throws UsageError for an empty one and one that is given twice.
std::vector<std::string> parse_offload(std::string_view text);

}  // namespace tessera::host
