// The kernel's own way to run with too little memory: paging, to compare offload with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::testing {

/// A memory cgroup below this process's own, with a swap file. Swap is the whole machine's while the object lives: use
/// it where nothing else runs. Where the system allows no such thing, obstacle() says why.
class Paging {
 public:
  /// A swap file of `swap_bytes` in `folder`.
  Paging(const std::string& folder, uint64_t swap_bytes);
  ~Paging();
  Paging(const Paging&) = delete;
  Paging& operator=(const Paging&) = delete;

  /// Empty where it can be used.
  const std::string& obstacle() const { return obstacle_; }
  /// The command, to be run with at most that much memory beside swap.
  std::vector<std::string> limited(const std::vector<std::string>& command, uint64_t num_bytes);

 private:
  void make_group();
  void make_swap(const std::string& folder, uint64_t num_bytes);

  std::string obstacle_;
  std::string group_, limit_file_, swap_file_;  // empty: not made
  bool is_swapping_ = false;
};

}  // namespace tessera::testing
