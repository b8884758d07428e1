// What the backward computes again instead of keeping it from the forward.
#pragma once

#include <string>
#include <string_view>

namespace tessera::host {

struct Recompute {
  enum class What { none, blocks, attention };
  What what = What::none;
  /// Of `blocks`: the last one of every group of that many (every - 1, 2 every - 1, ...); 1: all of them.
  int every = 1;

  bool operator==(const Recompute&) const = default;
};

/// The value of --recompute: none, full, every=K or attention. Throws UsageError.
Recompute parse_recompute(std::string_view text);
/// And back.
std::string to_string(const Recompute& recompute);

}  // namespace tessera::host
