// A rank has as many connections as it has threads in the store. Its process is lost when the last one closes without a
// goodbye, which a process that ends in good order sends; a connection that comes after a goodbye takes it back.

#include "launch/store/members.h"

#include "base/concat.h"

namespace tessera::host {

std::string StoreMembers::join(const Participant& who) {
  if (who.rank < 0) return "";
  Rank& rank = ranks_.try_emplace(who.rank, Rank{who}).first->second;
  if (rank.process != who)
    return concat("this job already has a rank ", who.rank, ": ", to_string(rank.process), ", and now ", to_string(who),
                  " claims to be it: two jobs share this address, or two ranks have the same ",
                  "number; give each job its own MASTER_PORT or TESSERA_JOB_SECRET");
  ++rank.num_connections;
  rank.said_goodbye = false;
  return "";
}

void StoreMembers::say_goodbye(const Participant& who) {
  if (who.rank >= 0) ranks_.at(who.rank).said_goodbye = true;
}

bool StoreMembers::leave(const Participant& who) {
  if (who.rank < 0) return false;
  Rank& rank = ranks_.at(who.rank);
  if (--rank.num_connections > 0 || rank.said_goodbye || rank.is_lost) return false;
  return rank.is_lost = true;
}

}  // namespace tessera::host
