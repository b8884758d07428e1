// A process identifier is unique on one machine only, so host and identifier together tell two claims of a rank apart.

#include "launch/participant.h"

#include <unistd.h>

#include <array>

#include "base/concat.h"

namespace tessera::host {

Participant this_process(int rank) {
  std::array<char, 256> name{};  // gethostname may cut a longer name without a terminating zero
  if (::gethostname(name.data(), name.size() - 1) != 0) return {rank, ::getpid(), "an unknown host"};
  return {rank, ::getpid(), name.data()};
}

std::string to_string(const Participant& participant) {
  return concat("process ", participant.pid, " on ", participant.host);
}

}  // namespace tessera::host
