// The plugins of a run whose flags name none. The build sets them (plugins/defaults.cmake): nothing in the runtime
// knows a plugin by name, and tests/lint/rules.sh enforces that.
#pragma once

#include <string_view>

namespace tessera::host {

/// Also serves the host memory of a run on another device.
inline constexpr std::string_view kDefaultDevice = TESSERA_DEFAULT_DEVICE;
/// Uses the host's streams, so it works with any device.
inline constexpr std::string_view kDefaultCommunicator = TESSERA_DEFAULT_COMMUNICATOR;
/// --comm: the communicator is chosen by the device (job/choose_communicator.h).
inline constexpr std::string_view kAutoCommunicator = "auto";
/// Works for every model, and with any strategy on another axis.
inline constexpr std::string_view kDefaultStrategy = TESSERA_DEFAULT_STRATEGY;

}  // namespace tessera::host
