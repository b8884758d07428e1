// Which activations the backward recomputes instead of keeping them from the forward.
#pragma once

#include <string>
#include <string_view>

namespace tessera::host {

struct Recompute {
  enum class What { none, blocks, attention };
  What what = What::none;
  /// For `blocks`: the last block of every group of this many (every - 1, 2 every - 1, ...); 1: all blocks.
  int every = 1;

  bool operator==(const Recompute&) const = default;
};

/// The value of --recompute: none, full, every=K or attention. Throws UsageError.
Recompute parse_recompute(std::string_view text);
/// The text that parses to the same value.
std::string to_string(const Recompute& recompute);

}  // namespace tessera::host
