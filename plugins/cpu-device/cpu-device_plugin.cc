// The ABI edge of cpu-device: the device that is always there. It computes on machines without a GPU, it is the host
// beside a GPU (communicators and strategies' own arithmetic run on its streams), and it is the plain reference beside
// faster ones.
#include "cpu-device/device.h"
#include "tessera/device_table.hpp"
#include "tessera/plugin.hpp"

namespace {

constexpr tsr_descriptor kDescriptor =
    tessera::descriptor("cpu", TSR_KIND_DEVICE, "org.tessera.cpu-device", "0.12.0",
                        "computes on the processor: streams are threads, matrix products are oneDNN's", {}, "Tessera");

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_DEVICE_INTERFACE, tessera::kDeviceInterface<tessera::cpu::Plugin>)
