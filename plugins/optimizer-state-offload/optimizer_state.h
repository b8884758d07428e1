// Offload of optimizer state, which is used once a step (ZeRO-Offload, Ren et al. 2021, with the update on the device;
// Megatron-LM's --optimizer-cpu-offload; --offload-opt-m and -v of LLMQ).
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "tessera/offload.hpp"

namespace tessera::optimizer_state {

/// The moments m and v rest in host memory. Homes are cut into chunks, and a chunk is in device memory from `ahead`
/// visits before its update to `linger` visits after it, so about 8 (1 + ahead + linger) bytes an element of a chunk
/// are in use at a time. With `gradients` these wait elsewhere too, from their block's backward on, which takes 4 bytes
/// an element of (1 + linger) blocks then and 4 more in the update.
///
/// With `update=host` the host works on all of it where it rests: parameters too, which are in device memory from their
/// first use to their last. A gradient leaves when its last micro-batch is done.
class OptimizerState {
 public:
  static constexpr std::string_view kName = "optimizer-state";
  explicit OptimizerState(std::span<const tsr_option_value> options);
  void plan(const OffloadView& view, const OffloadSink& sink) const;

 private:
  std::set<uint64_t> wanted_buffers(const OffloadView& view) const;
  void plan_states(const OffloadView& view, const OffloadSink& sink) const;
  void plan_updates(const OffloadView& view, const OffloadSink& sink) const;

  uint32_t place_;
  double fraction_;
  std::string states_;
  bool gradients_, updates_on_host_;
  uint32_t ahead_, linger_;
};

}  // namespace tessera::optimizer_state
