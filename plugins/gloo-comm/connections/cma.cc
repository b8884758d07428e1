// Whether a peer can be read depends on many rules of the system (user ids, Yama, seccomp, namespaces), so it is
// tested: the peer sends the address of a random word, which must be found there. A wrong word counts as unreadable: in
// another process-id namespace the same number may name another process.
#include "gloo-comm/connections/cma.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "gloo-comm/connections/handshake.h"

namespace tessera::gloo_comm {
namespace {

// The system keeps one permission per process, so the process counts its users.
struct Permissions {
  std::mutex mutex;
  int num_held = 0;
};
Permissions& permissions() {
  static Permissions permissions;
  return permissions;
}

void permit(pid_t reader) {
#ifdef PR_SET_PTRACER
  prctl(PR_SET_PTRACER, static_cast<unsigned long>(reader), 0, 0, 0);
#endif
}

uint64_t random_word() {
  const Secret secret = random_secret();
  uint64_t word;
  std::memcpy(&word, secret.data(), sizeof word);
  return word;
}

}  // namespace

// Yama lets the named process and its descendants read. Naming init would permit every process.
ReadPermission::ReadPermission() {
  const std::lock_guard lock(permissions().mutex);
  if (permissions().num_held++ == 0 && getppid() > 1) permit(getppid());
}

ReadPermission::~ReadPermission() {
  const std::lock_guard lock(permissions().mutex);
  if (--permissions().num_held == 0) permit(0);
}

CmaReader::CmaReader(bool is_wanted, int num_ranks)
    : word_(random_word()),
      processes_(static_cast<size_t>(num_ranks)),
      can_read_(static_cast<size_t>(num_ranks)),
      agreed_(static_cast<size_t>(num_ranks)) {
  if (is_wanted && num_ranks > 1) permission_.emplace();
}

CmaProbe CmaReader::readable() const {
  if (!permission_) return {};
  return {static_cast<uint64_t>(getpid()), reinterpret_cast<uint64_t>(&word_), word_};
}

void CmaReader::try_peer(int peer, const CmaProbe& readable) {
  if (!permission_ || readable.process == 0) return;
  processes_[static_cast<size_t>(peer)] = readable.process;
  uint64_t word = ~readable.word;
  can_read_[static_cast<size_t>(peer)] = read(peer, readable.address, &word, sizeof word) && word == readable.word;
}

void CmaReader::finish_probing() {
  if (std::ranges::find(agreed_, true) == agreed_.end()) permission_.reset();
}

// Asked as a reader in another process would ask; a mapping is of one kind, so its ends answer for it.
bool CmaReader::is_readable(const void* data, uint64_t num_bytes) {
  if (num_bytes == 0) return true;
  char ends[2] = {};
  auto* const bytes = static_cast<char*>(const_cast<void*>(data));
  const iovec local{ends, sizeof ends};
  const iovec remote[] = {{bytes, 1}, {bytes + num_bytes - 1, 1}};
  return process_vm_readv(getpid(), &local, 1, remote, 2, 0) == sizeof ends;
}

bool CmaReader::read(int peer, uint64_t address, void* to, uint64_t num_bytes) const {
  auto* out = static_cast<char*>(to);
  while (num_bytes > 0) {
    const iovec local{out, num_bytes};
    const iovec remote{reinterpret_cast<void*>(address), num_bytes};
    const ssize_t done =
        process_vm_readv(static_cast<pid_t>(processes_[static_cast<size_t>(peer)]), &local, 1, &remote, 1, 0);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    out += done;
    address += static_cast<uint64_t>(done);
    num_bytes -= static_cast<uint64_t>(done);
  }
  return true;
}

}  // namespace tessera::gloo_comm
