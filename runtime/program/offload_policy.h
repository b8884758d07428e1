// An offload policy with its options.
#pragma once

#include <string>

#include "tessera/offload.h"

namespace tessera::host {

/// Borrows: the owner keeps instance and table alive.
struct OffloadPolicy {
  std::string name;
  const tsr_offload_interface* interface = nullptr;
  tsr_offload* instance = nullptr;
  std::string host_flag = {};  ///< the flag that makes it run actions on the host, if it has an option `update`
};

}  // namespace tessera::host
