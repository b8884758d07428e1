// Data parallelism: every rank keeps all parameters; gradients are summed over the axis while the backward still runs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/strategy.hpp"

namespace tessera::ddp {

/// INIT: the homes' values are broadcast from coordinate 0. STEP: gradients are summed in buckets of about `bucket-mb`,
/// each right after its last writer; a large unit is summed in ranges, small units share a buffer. EVAL: nothing. With
/// --reduce-every=micro-batch, the sums are over the buffers that `add` reads to update the gradient home.
class Ddp final : public Strategy {
 public:
  static constexpr std::string_view kName = "ddp";
  Ddp(std::string_view axis, std::span<const tsr_option_value> options);
  void lower(const ProgramView& view, const Edit& edit) const override;

 private:
  uint64_t bucket_bytes_;
};

}  // namespace tessera::ddp
