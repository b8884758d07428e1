// Reading another rank's memory instead of sending it: one copy in place of two and the packets between them
// (docs/decisions/0011).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tessera::gloo_comm {

/// What a peer needs to try whether it can read this process's memory.
struct Readable {
  uint64_t process;        ///< 0: it shall not
  uint64_t address, word;  ///< where the word lies, and its value
};

/// While one lives, the processes of this process's parent, so all ranks that one launcher started, may read its memory
/// where Yama lets only ancestors do so. Of a process, not of a rank: the last one to go takes the permission back.
class ReadPermission {
 public:
  ReadPermission();
  ~ReadPermission();
  ReadPermission(const ReadPermission&) = delete;
  ReadPermission& operator=(const ReadPermission&) = delete;
};

/// Reads the memory of other members' processes on this machine (process_vm_readv): one copy by the reader, where a
/// connection costs the sender one, the receiver one, and the system's work on packets. Which pairs may is found out
/// when the communicator is made, by reading a word and looking whether it is the peer's; both ends must be able to.
class DirectReader {
 public:
  /// `is_wanted` false: no pair reads.
  DirectReader(bool is_wanted, int num_ranks);

  Readable readable() const;

  /// Finds out whether this rank can read the peer's word.
  void try_peer(int peer, const Readable& readable);
  bool can_read(int peer) const { return can_read_[static_cast<size_t>(peer)]; }
  /// The peer can read this rank's word; if that holds both ways, reads(peer) from now on.
  void peer_can_read(int peer) { agreed_[static_cast<size_t>(peer)] = can_read(peer); }
  bool reads(int peer) const { return agreed_[static_cast<size_t>(peer)]; }
  /// All peers have been tried: if none is read, none may read this process either.
  void settle();

  /// Copies from the peer's memory. False when it cannot be read (any more): the peer's process has ended.
  bool read(int peer, uint64_t address, void* to, uint64_t num_bytes) const;

 private:
  std::optional<ReadPermission> permission_;  // none: no pair reads
  const uint64_t word_;
  std::vector<uint64_t> processes_;
  std::vector<bool> can_read_, agreed_;
};

}  // namespace tessera::gloo_comm
