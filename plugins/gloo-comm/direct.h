#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::gloo_comm {

/// Reads the memory of other members' processes on this machine (process_vm_readv): one copy by the reader, where a
/// connection costs the sender one, the receiver one, and the system's work on packets. Which pairs may is found out
/// when the communicator is made, by reading a word and looking whether it is the peer's; both ends must be able to.
class DirectReader {
 public:
  /// `is_wanted` false: no pair reads. `secret` is what members of this communicator alone know.
  DirectReader(bool is_wanted, uint64_t secret, int num_ranks);

  /// What a peer needs to try: this process (0: it shall not), and where the word stands.
  uint64_t process() const;
  uint64_t address() const { return reinterpret_cast<uint64_t>(&word_); }

  /// Finds out whether this rank can read the peer's word.
  void try_peer(int peer, uint64_t process, uint64_t address);
  bool can_read(int peer) const { return can_read_[static_cast<size_t>(peer)]; }
  /// The peer can read this rank's word; if that holds both ways, reads(peer) from now on.
  void peer_can_read(int peer) { agreed_[static_cast<size_t>(peer)] = can_read(peer); }
  bool reads(int peer) const { return agreed_[static_cast<size_t>(peer)]; }

  /// Copies from the peer's memory. False when it cannot be read (any more): the peer's process has ended.
  bool read(int peer, uint64_t address, void* to, uint64_t num_bytes) const;

 private:
  const bool is_wanted_;
  const uint64_t word_;
  std::vector<uint64_t> processes_;
  std::vector<bool> can_read_, agreed_;
};

}  // namespace tessera::gloo_comm
