// SPDX-License-Identifier: Apache-2.0
// The get_extension of a table that the C++ layer makes.
#pragma once

#include <string_view>

#include "tessera/core.h"

namespace tessera {

/// The optional table that a plugin's class has by that id: what its `static const void* get_extension(std::string_view
/// id) noexcept` returns, and NULL for a class without one.
template <class Plugin>
const void* extension_of([[maybe_unused]] tsr_str id) noexcept {
  if constexpr (requires { Plugin::get_extension(std::string_view(id.ptr, id.len)); })
    return Plugin::get_extension(std::string_view(id.ptr, id.len));
  else
    return nullptr;
}

}  // namespace tessera
