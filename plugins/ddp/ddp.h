// Data parallel: every rank keeps everything; gradients are summed over the axis while the backward still runs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/strategy.hpp"

namespace tessera::ddp {

/// INIT: the homes' values are broadcast from coordinate 0. STEP: gradients are summed in buckets of about `bucket-mb`,
/// each right after its last writer; a large unit is cut into ranges, small units share a buffer. EVAL: nothing.
/// With --reduce-every=micro-batch, what is summed is what the `add` into the gradient home reads.
class Ddp final : public Strategy {
 public:
  static constexpr std::string_view kName = "ddp";
  Ddp(std::string_view axis, std::span<const tsr_option_value> options);
  void lower(const ProgramView& view, const Edit& edit) const override;

 private:
  uint64_t bucket_bytes_;
};

}  // namespace tessera::ddp
