// The plugins of a run whose flags name none. Which ones they are is data of the build (plugins/defaults.cmake):
// nothing in the runtime knows a plugin by name, and tests/lint/rules.sh keeps it so.
#pragma once

#include <string_view>

namespace tessera::host {

/// Also the host's side of a run on another device.
inline constexpr std::string_view kDefaultDevice = TESSERA_DEFAULT_DEVICE;
/// Takes the host's streams, so it works beside any device.
inline constexpr std::string_view kDefaultCommunicator = TESSERA_DEFAULT_COMMUNICATOR;
/// Fits every model, and any other strategy on another axis.
inline constexpr std::string_view kDefaultStrategy = TESSERA_DEFAULT_STRATEGY;

}  // namespace tessera::host
