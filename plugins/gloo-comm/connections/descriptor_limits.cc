// Each of n ranks opens n - 1 connections, so large jobs reach the default limit of 1024. Running out half way would be
// a time-out on other ranks; so descriptors are opened as a test and closed again, which also counts those that the
// process's libraries have open, and notices the machine's own limit.
#include "gloo-comm/connections/descriptor_limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "gloo-comm/connections/descriptor.h"

namespace tessera::gloo_comm {
namespace {

/// Counted without opening anything, as /proc/self/fd would.
int num_open_files(const rlimit& limit) {
  constexpr rlim_t kHighest = 65536;  // some containers allow a billion
  int num_open = 0;
  const auto end = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, kHighest));
  for (int fd = 0; fd < end; ++fd)
    if (fcntl(fd, F_GETFD) != -1) ++num_open;
  return num_open;
}

Error exhausted(const std::string& where, int error, int num_more) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::string text =
      error == EMFILE
          ? ": this process may have " + std::to_string(limit.rlim_cur) + " files open and needs at least " +
                std::to_string(num_open_files(limit) + num_more) + " (" + std::to_string(num_more) +
                " of them for this communicator's connections); raise the limit with ulimit -n"
          : std::string(": no more files can be opened on this machine: ") + std::strerror(error);
  return Error(TSR_E_RESOURCE_EXHAUSTED, where + text);
}

}  // namespace

int require_descriptors(const std::string& where, int num_more, int num_wished) {
  std::vector<Descriptor> spare;
  int error = 0;
  while (error == 0 && static_cast<int>(spare.size()) < num_more + num_wished) {
    Descriptor descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!descriptor)
      error = errno;
    else
      spare.push_back(std::move(descriptor));
  }
  const int num_left = static_cast<int>(spare.size()) - num_more;
  spare.clear();
  if (num_left < 0) throw exhausted(where, error, num_more);
  return num_left;
}

Error too_few_descriptors(const std::string& where, int num_more) {
  const int error = errno;  // before counting changes it
  return exhausted(where, error, num_more);
}

}  // namespace tessera::gloo_comm
