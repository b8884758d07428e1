// How the ranks of a group find their hub.
#pragma once

#include <memory>

#include "local-comm/hub.h"

namespace tessera::local {

struct ReleaseHub {
  void operator()(Hub* hub) const { hub->release(); }
};
using HubReference = std::unique_ptr<Hub, ReleaseHub>;

/// The hub of the group that meets under `prefix` in the key-value service, joined by all its ranks. Coordinate 0 makes
/// it and puts its process and address there. FAILED_PRECONDITION in another process than coordinate 0's; DEADLINE
/// names who is missing. [control-thread]
HubReference join_hub(const KeyValue& store, const std::string& prefix, const Member& member);

}  // namespace tessera::local
