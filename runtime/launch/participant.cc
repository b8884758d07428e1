// A process identifier is unique on one machine only, so host and identifier together tell two claims of a rank apart.

#include "launch/participant.h"

#include <unistd.h>

#include "base/concat.h"

namespace tessera::host {

Participant this_process(int rank) {
  const std::string host = host_name();
  return {rank, ::getpid(), host.empty() ? "an unknown host" : host};
}

std::string to_string(const Participant& participant) {
  return process_text(participant.pid, participant.host);
}

}  // namespace tessera::host
