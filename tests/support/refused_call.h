// System calls that the kernel refuses, as the seccomp filter of a container does. Not reversible: for a child process.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace tessera::testing {

/// An argument of a call: (argument & mask) == value, of its lower 32 bits.
struct CallArgument {
  unsigned index = 0;
  uint32_t mask = 0, value = 0;
};

/// From now on the call `number` (SYS_...), where all of `where` hold, fails with `error` in this thread and in those
/// that it starts.
inline void refuse_call(int number, int error, const std::vector<CallArgument>& where = {}) {
  struct Check {
    uint32_t offset, mask, value;
  };
  std::vector<Check> checks = {{offsetof(seccomp_data, nr), ~0u, static_cast<uint32_t>(number)}};
  for (const CallArgument& argument : where)
    checks.push_back({static_cast<uint32_t>(offsetof(seccomp_data, args) + argument.index * sizeof(uint64_t)),
                      argument.mask, argument.value});
  std::vector<sock_filter> filter;
  for (size_t i = 0; i < checks.size(); ++i) {
    const auto to_allow = static_cast<uint8_t>((checks.size() - i - 1) * 3 + 1);
    filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, checks[i].offset));
    filter.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, checks[i].mask));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, checks[i].value, 0, to_allow));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    throw std::runtime_error("the system takes no seccomp filter");
}

}  // namespace tessera::testing
