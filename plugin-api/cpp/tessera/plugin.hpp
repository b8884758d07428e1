// SPDX-License-Identifier: Apache-2.0
// The entry of a plugin written in C++: a descriptor, its options, and the handshake.
//
//     namespace {
//     constexpr tsr_option kOptions[] = {tessera::int_option("bucket-mb", "25", 1, 65536, "...")};
//     constexpr tsr_descriptor kDescriptor = tessera::descriptor("ddp", TSR_KIND_STRATEGY, "com.example.ddp", "1.0.0",
//                                                                "sums gradients ...", kOptions, "Example");
//     }
//     TESSERA_PLUGIN(kDescriptor, TSR_STRATEGY_INTERFACE, kTable)
//
// All of it is constexpr: a plugin has no state to set up, and `tessera plugins info` may load it for its descriptor
// alone, on a machine without its device.
#pragma once

#include <span>
#include <string_view>

#include "tessera/error.hpp"

namespace tessera {

constexpr tsr_str literal(std::string_view s) {
  return {s.data(), s.size()};
}

constexpr tsr_option int_option(std::string_view name, std::string_view value, double min, double max,
                                std::string_view help) {
  return {literal(name), literal(value), {nullptr, 0}, literal(help), min, max, TSR_OPTION_INT, 0};
}
constexpr tsr_option float_option(std::string_view name, std::string_view value, double min, double max,
                                  std::string_view help) {
  return {literal(name), literal(value), {nullptr, 0}, literal(help), min, max, TSR_OPTION_FLOAT, 0};
}
constexpr tsr_option bool_option(std::string_view name, std::string_view value, std::string_view help) {
  return {literal(name), literal(value), {nullptr, 0}, literal(help), 1, 0, TSR_OPTION_BOOL, 0};
}
/// `choices` are separated by '|'; empty allows any text.
constexpr tsr_option string_option(std::string_view name, std::string_view value, std::string_view choices,
                                   std::string_view help) {
  return {literal(name), literal(value), literal(choices), literal(help), 1, 0, TSR_OPTION_STRING, 0};
}

/// The same option, in which ranks may differ. Of communicators only.
constexpr tsr_option per_rank(tsr_option option) {
  option.flags |= TSR_OPTION_PER_RANK;
  return option;
}

/// `vendor` is the maker of the plugin; empty: not stated.
constexpr tsr_descriptor descriptor(std::string_view name, std::string_view kind, std::string_view id,
                                    std::string_view version, std::string_view summary,
                                    std::span<const tsr_option> options = {}, std::string_view vendor = {}) {
  return {sizeof(tsr_descriptor),
          0,
          literal(name),
          literal(kind),
          literal(id),
          literal(version),
          literal(vendor),
          literal(summary),
          options.data(),
          options.size()};
}

/// The value of a declared option; throws NOT_FOUND for one that was not declared.
inline const tsr_option_value& option(std::span<const tsr_option_value> values, std::string_view name) {
  for (const auto& value : values)
    if (view(value.name) == name) return value;
  throw Error(TSR_E_NOT_FOUND, "the host passed no value for option " + std::string(name));
}

/// The host of one rank, as given to create and open, which it outlives. Borrows.
class Host {
 public:
  explicit Host(const tsr_host& host) : host_(&host) {}

  /// Writes one line; `level` is TSR_LOG_*. [any-thread]
  void log(int32_t level, std::string_view message) const { host_->log(host_->ctx, level, str(message)); }
  /// The table of a service, such as TSR_KV_SERVICE, for which there is KeyValue in key_value.hpp; NULL: the host has
  /// none. [any-thread]
  const void* get_service(std::string_view id) const { return host_->get_service(host_->ctx, str(id)); }

 private:
  const tsr_host* host_;
};

/// Throws ABI for an APPENDABLE struct that is shorter than this header's minor needs. `what` names the function and
/// the struct: "plan: tsr_offload_view".
inline void require_size(const char* what, uint64_t num_bytes, uint64_t min_bytes) {
  if (num_bytes < min_bytes)
    throw Error(TSR_E_ABI, std::string(what) + ".struct_size is " + std::to_string(num_bytes) + "; ABI " +
                               std::to_string(TSR_ABI_MAJOR) + "." + std::to_string(TSR_ABI_MINOR) +
                               " requires at least " + std::to_string(min_bytes));
}

/// Checks the host's side of the handshake and writes the plugin's: TSR_TARGET_MINOR and whatever comes after it.
inline void shake_hands(tsr_handshake* io) {
  if (!io || io->magic != TSR_MAGIC) throw Error(TSR_E_ABI, "the handshake has a wrong magic number");
  io->plugin_abi_major = TSR_ABI_MAJOR;
  io->plugin_minor_min = TSR_TARGET_MINOR;
  io->plugin_minor_max = TSR_ABI_MINOR;
  if (io->abi_major != TSR_ABI_MAJOR || io->pointer_bits != 8 * sizeof(void*) ||
      io->host_minor_max < TSR_TARGET_MINOR || io->host_minor_min > TSR_ABI_MINOR)
    throw Error(TSR_E_ABI, "this plugin needs ABI " + std::to_string(TSR_ABI_MAJOR) + "." +
                               std::to_string(TSR_TARGET_MINOR) + " to " + std::to_string(TSR_ABI_MAJOR) + "." +
                               std::to_string(TSR_ABI_MINOR) + " on a 64-bit machine; the host offers " +
                               std::to_string(io->abi_major) + "." + std::to_string(io->host_minor_min) + " to " +
                               std::to_string(io->abi_major) + "." + std::to_string(io->host_minor_max));
}

}  // namespace tessera

/// Defines the plugin's one exported function. `table` is the kind's function table, with static storage.
#define TESSERA_PLUGIN(descriptor_, interface_id_, table_)                                                          \
  extern "C" tsr_status tsr_plugin_query_v1(tsr_handshake* io, const tsr_host*, const tsr_factory** factory,        \
                                            tsr_error* err) noexcept {                                              \
    static constexpr tsr_factory kFactory = {sizeof(tsr_factory), 0, &(descriptor_),                                \
                                             +[](tsr_str id) noexcept -> const void* {                              \
                                               return ::tessera::view(id) == (interface_id_) ? &(table_) : nullptr; \
                                             }};                                                                    \
    return ::tessera::guard(err, ::tessera::view((descriptor_).name), [&] {                                         \
      ::tessera::shake_hands(io);                                                                                   \
      *factory = &kFactory;                                                                                         \
    });                                                                                                             \
  }
