// Every member publishes its location; coordinate 0 checks them all and puts one decision into the store: NCCL's id, or
// a refusal. So all ranks stop with the same sentence. Two ranks on one GPU must be found here: NCCL fails on one of
// them and hangs on the other. A GPU is the machine's boot id and the PCI bus id, since containers on one machine may
// have different host names and number GPUs differently.
#include "nccl-comm/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>

namespace tessera::nccl_comm {
namespace {

// What coordinate 0 publishes: a letter, then NCCL's id or the sentence of a refusal.
constexpr char kAgreed = 'i', kRefused = 'e';

template <size_t N>
void fill(char (&field)[N], const std::string& text) {
  text.copy(field, N - 1);
}

std::string location_key(const std::string& prefix, int rank) {
  return prefix + "/location/" + std::to_string(rank);
}

Error missing_error(const Member& member, const std::vector<int>& missing) {
  std::string ranks;
  for (int rank : missing)
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(member.world_rank(rank));
  return Error(TSR_E_DEADLINE,
               member.where() + ": create timed out after " + std::to_string(member.timeout_ms) +
                   " ms waiting for rank " + ranks,
               member.world_rank(missing.front()));
}

/// The value of `key`, or an empty one at the deadline.
std::string get_until(const KeyValue& store, const std::string& key, const Member& member, const Deadline& deadline,
                      const CancelFlag& cancel) {
  for (;;) {
    cancel.check(member);
    const int64_t left_ms = deadline.left_ms();
    try {
      return store.get(key, std::min(left_ms, kCancelPollMs));
    } catch (const Error& error) {
      if (error.code() != TSR_E_DEADLINE) throw;
      if (left_ms <= kCancelPollMs) return "";
    }
  }
}

/// Waits for the locations of all ranks.
std::vector<RankLocation> collect_locations(const KeyValue& store, const std::string& prefix, const Member& member,
                                            const Deadline& deadline, const CancelFlag& cancel) {
  std::vector<RankLocation> locations;
  std::vector<int> missing;
  for (int rank = 0; rank < member.num_ranks; ++rank) {
    const std::string bytes = get_until(store, location_key(prefix, rank), member, deadline, cancel);
    if (bytes.empty())
      missing.push_back(rank);
    else
      locations.push_back(from_bytes<RankLocation>(bytes));
  }
  if (!missing.empty()) throw missing_error(member, missing);
  return locations;
}

/// The reason to refuse these locations, or "".
std::string find_shared_gpu(const std::vector<RankLocation>& locations, const Member& member) {
  std::map<std::string, int> owners;
  for (int rank = 0; rank < member.num_ranks; ++rank) {
    const RankLocation& location = locations[static_cast<size_t>(rank)];
    const auto [owner, is_new] = owners.emplace(std::string(location.boot) + " " + location.bus_id, rank);
    if (!is_new)
      return "rank " + std::to_string(member.world_rank(owner->second)) + " and rank " +
             std::to_string(member.world_rank(rank)) + " are on one GPU (" + location.bus_id + " of " + location.host +
             "), but NCCL needs one GPU per rank; start at most as many ranks on a machine as it has GPUs, or use "
             "--comm gloo";
  }
  return "";
}

std::string decide(const std::vector<RankLocation>& locations, const Member& member, const Library& nccl) {
  const std::string refusal = find_shared_gpu(locations, member);
  if (!refusal.empty()) return kRefused + refusal;
  ncclUniqueId id;
  if (const ncclResult_t result = nccl.get_unique_id(&id); result != ncclSuccess)
    throw nccl.error(result, member.where() + ": ncclGetUniqueId");
  return kAgreed + to_bytes(id);
}

}  // namespace

RankLocation this_location(const Gpu& gpu) {
  RankLocation location{};
  if (gethostname(location.host, sizeof location.host - 1) != 0) fill(location.host, "this machine");
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  fill(location.boot, boot.empty() ? location.host : boot);
  fill(location.bus_id, gpu.bus_id());
  return location;
}

ncclUniqueId agree_on_unique_id(const KeyValue& store, const std::string& prefix, const Member& member,
                                const RankLocation& own, const Library& nccl, const Deadline& deadline,
                                const CancelFlag& cancel) {
  const std::string decision_key = prefix + "/decision";
  store.set(location_key(prefix, member.rank), to_bytes(own));
  std::string decision;
  if (member.rank == 0) {
    decision = decide(collect_locations(store, prefix, member, deadline, cancel), member, nccl);
    store.set(decision_key, decision);
  } else {
    decision = get_until(store, decision_key, member, deadline, cancel);
    if (decision.empty()) {
      collect_locations(store, prefix, member, deadline, cancel);  // throws, unless the last rank came just now
      throw missing_error(member, {0});
    }
  }
  if (decision[0] == kRefused) throw Error(TSR_E_FAILED_PRECONDITION, member.where() + ": " + decision.substr(1));
  return from_bytes<ncclUniqueId>(decision.substr(1));
}

}  // namespace tessera::nccl_comm
