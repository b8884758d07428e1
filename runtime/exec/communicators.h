// The communicators of one rank: one per (group, comm stream), all made at start.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/device.h"
#include "exec/watch/collective_clock.h"
#include "program/program.h"
#include "tessera/communicator.h"

namespace tessera::host {

/// How communicators are made.
struct CommunicatorSetup {
  const tsr_communicator_interface* api = nullptr;
  const tsr_host* host = nullptr;
  std::span<const tsr_option_value> options;
  /// Which communicators of the job these are: others that are made later in its store, after an abort, have another.
  uint64_t epoch = 0;
  bool is_local = true;    ///< all ranks of the job are on this machine
  std::string store_host;  ///< host of the job's store; empty: unknown
  int64_t start_timeout_ms = 300'000;
  int64_t timeout_ms = 100'000;
  bool is_capturable = false;  ///< submit may be called while its stream is captured
  bool has_clock = false;      ///< comm streams are the host's: collectives are timed (CollectiveClock)
  /// Called some times a second, on a thread of its own, while communicators are created; true ends that with an error.
  std::function<bool()> cancelled = [] { return false; };
};

/// A group of ranks, seen from one of them.
struct GroupMember {
  int position = 0;
  std::vector<int32_t> world_ranks;  ///< of all members
  std::string name;                  ///< the same on all members
};

/// Creates the communicator of the group, which all members do at the same time. `rendezvous` is the same on all
/// members and this group's alone. Throws the plugin's error. [control-thread]
tsr_comm* create_communicator(const CommunicatorSetup& setup, const Device& device, const GroupMember& member,
                              const std::string& rendezvous, const uint32_t* cancel);
void destroy_communicator(const tsr_communicator_interface& api, tsr_comm* comm) noexcept;

/// A communicator and the number of its collectives in all runs so far.
struct Communicator {
  std::string name;
  tsr_comm* comm = nullptr;
  uint64_t num_collectives = 0;
  std::unique_ptr<CollectiveClock> clock = {};  ///< null: its collectives are not timed
};

class Communicators {
 public:
  /// Creates one for each (group, stream) that a collective of any program uses, in the same order on all ranks; none
  /// for groups of one. Their streams are those of `device`. Returns when all members have joined. [control-thread]
  Communicators(const CommunicatorSetup& setup, const Device& device, std::span<const Program* const> programs);
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  /// Null for a group of one.
  Communicator* find(const Program& program, const Action& action);
  bool empty() const { return by_key_.empty(); }
  /// In the order of their creation, the same on all ranks.
  std::vector<Communicator*> all();
  bool is_capturable() const { return setup_.is_capturable; }
  /// A program is about to run; nothing is in flight.
  void begin_run();
  /// Throws the first error of their work, if there is one. Ends the run if work exceeds its time-out. [issue-thread]
  void check() const;
  /// Aborts all at once, those of the world first, from any thread; outstanding work fails as aborted. May be repeated.
  void abort();
  const tsr_communicator_interface& api() const { return *setup_.api; }
  /// For a collective of that program. Ranks take unequal time before they start, so `init` has longer.
  int64_t timeout_ms(const Program& program) const {
    return program.purpose == TSR_PURPOSE_INIT ? setup_.start_timeout_ms : setup_.timeout_ms;
  }

 private:
  struct Key {
    std::string stream;
    int axis;
    std::vector<int> coordinates;
    auto operator<=>(const Key&) const = default;
  };
  static Key key_of(const Program& program, const Action& action);
  void create(const Key& key, const Program& program, const Device& device, const uint32_t* cancel);

  CommunicatorSetup setup_;
  std::map<Key, Communicator> by_key_;
};

}  // namespace tessera::host
