// Everything that training keeps rests outside of device memory and passes through it block by block (ZeRO-Infinity,
// Rajbhandari et al. 2021; FSDP's CPUOffload, MegaTrain).
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/offload.hpp"

namespace tessera::stream {

/// Values, gradients and optimizer state leave wherever a use is followed by a gap, and after every update. In device
/// memory are about (1 + ahead) units' values and (1 + linger) units' gradients in the backward, and 16 bytes an
/// element of (1 + ahead + linger) chunks in the update; with `update=host` nothing in the update, which works on
/// everything where it rests.
class Stream {
 public:
  static constexpr std::string_view kName = "stream";
  explicit Stream(std::span<const tsr_option_value> options);
  void plan(const OffloadView& view, const OffloadSink& sink) const;

 private:
  std::set<int32_t> kept_units(const OffloadView& view) const;
  std::set<uint64_t> kept_buffers(const OffloadView& view) const;

  uint32_t place_;
  double fraction_;
  std::vector<std::string> keep_;
  bool gradients_, updates_on_host_;
  uint32_t ahead_, linger_;
};

}  // namespace tessera::stream
