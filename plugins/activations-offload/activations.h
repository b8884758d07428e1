// Offload of activations: what the forward computes for the backward waits in host memory (saved-tensor hooks of
// PyTorch, fine-grained activation offloading of Megatron-LM).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tessera/offload.hpp"

namespace tessera::activations {

/// An activation leaves after each use that the next one is far enough from: more than ahead + linger + 1 visits, since
/// the device memory would not be free for any visit otherwise. So what the last blocks save stays.
class Activations {
 public:
  static constexpr std::string_view kName = "activations";
  explicit Activations(std::span<const tsr_option_value> options);
  void plan(const OffloadView& view, const OffloadSink& sink) const;

 private:
  bool is_wanted(const tsr_item& item) const;
  bool has_gap(const tsr_item& item) const;
  bool is_gap(const tsr_use& use, const tsr_use& next) const { return next.visit - use.visit > ahead_ + linger_ + 1; }

  std::string what_;
  uint32_t place_;
  double fraction_;
  uint64_t min_bytes_;
  uint32_t ahead_, linger_;
};

}  // namespace tessera::activations
