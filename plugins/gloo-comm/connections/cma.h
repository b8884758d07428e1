// Cross-memory attach (process_vm_readv): reading another rank's memory instead of sending it over TCP
// (docs/decisions/0011).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tessera::gloo_comm {

/// What a peer needs to test whether it can read this process's memory.
struct CmaProbe {
  uint64_t process;        ///< 0: reading is off
  uint64_t address, word;  ///< of the test word, and its value
};

/// While one exists, this process's parent and its descendants, so all ranks of one launcher, may read its memory where
/// Yama restricts that to ancestors. It is per process, not per rank: the last one destroyed revokes the permission.
class ReadPermission {
 public:
  ReadPermission();
  ~ReadPermission();
  ReadPermission(const ReadPermission&) = delete;
  ReadPermission& operator=(const ReadPermission&) = delete;
};

/// Reads the memory of other members' processes on this machine (process_vm_readv): one copy by the reader, where a
/// connection costs the sender one, the receiver one, and the system's work on packets. Which pairs can is tested when
/// the communicator is made, by reading a word of the peer and comparing it; a pair uses it if both ends can.
class CmaReader {
 public:
  /// `is_wanted` false: off for all pairs.
  CmaReader(bool is_wanted, int num_ranks);

  CmaProbe readable() const;

  /// Tests whether this rank can read the peer's word.
  void try_peer(int peer, const CmaProbe& readable);
  bool can_read(int peer) const { return can_read_[static_cast<size_t>(peer)]; }
  /// The peer can read this rank's word; if this rank can read the peer's too, reads(peer) is true from now on.
  void note_peer_can_read(int peer) { agreed_[static_cast<size_t>(peer)] = can_read(peer); }
  bool reads(int peer) const { return agreed_[static_cast<size_t>(peer)]; }
  /// All peers have been tested: if no pair reads, the permission is revoked.
  void finish_probing();

  /// Whether the system lets other processes read these bytes of this one. Not of memory that a driver maps, such as
  /// CUDA's own pinned memory.
  static bool is_readable(const void* data, uint64_t num_bytes);

  /// Copies from the peer's memory. False if it cannot be read, because the peer's process has ended.
  bool read(int peer, uint64_t address, void* to, uint64_t num_bytes) const;

 private:
  std::optional<ReadPermission> permission_;  // none: no pair reads
  const uint64_t word_;
  std::vector<uint64_t> processes_;
  std::vector<bool> can_read_, agreed_;
};

}  // namespace tessera::gloo_comm
