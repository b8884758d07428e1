// The ABI edge of the test device.
#include "devices/other_device.h"
#include "tessera/device_table.hpp"
#include "tessera/plugin.hpp"

namespace {

using namespace tessera;

constexpr tsr_option kOptions[] = {bool_option("fail-capture", "false", "every capture fails at its end"),
                                   bool_option("share", "false", "ranks may share a device")};
constexpr tsr_descriptor kDescriptor =
    descriptor(TESSERA_OTHER_DEVICE, TSR_KIND_DEVICE, "org.tessera.tests." TESSERA_OTHER_DEVICE "-device", "0.12.0",
               "computes on the processor in memory that the host cannot touch", kOptions);

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_DEVICE_INTERFACE, tessera::kDeviceInterface<tessera::other::Plugin>)
