// The functions of the host that plugins may call: log and key-value store. Any thread of a plugin may call them; they
// are noexcept, since no exception may cross the ABI.

#include "plugins/host_services.h"

#include <algorithm>
#include <cstring>

#include "base/concat.h"
#include "guard/known_functions.h"
#include "guard/plugin_calls.h"
#include "guard/readable.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

/// The function that receives the plugin's host.
const void* maker_of(const LoadedPlugin& plugin) {
  if (!plugin.interface) return nullptr;
  switch (plugin.kind) {
    case PluginKind::strategy:
      return address_of(plugin.strategy()->create);
    case PluginKind::communicator:
      return address_of(plugin.communicator()->create);
    case PluginKind::device:
      return address_of(plugin.device()->open);
    case PluginKind::offload:
      return address_of(plugin.offload()->create);
  }
  return nullptr;
}

/// What a plugin hands over, if it can be read.
std::string_view readable(const void* bytes, uint64_t num_bytes, const char* what) {
  if (!is_readable(bytes, num_bytes))
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat(what,
                       bytes ? " points to memory that cannot be read, or is shorter than its length, "
                             : " is NULL, with a length of ",
                       num_bytes, " bytes"));
  return num_bytes ? std::string_view(static_cast<const char*>(bytes), num_bytes) : std::string_view();
}

/// The host's own keys are out of reach. An empty one stays so, for the store to refuse.
std::string key_of(tsr_str key) {
  const std::string_view given = readable(key.ptr, key.len, "the key");
  return given.empty() ? "" : concat("plugin/", given);
}

/// A line that a plugin logs; a long one is cut.
std::string line_of(tsr_str message) {
  const uint64_t num_shown = std::min(message.len, kMaxTextBytes);
  const std::string_view shown = readable(message.ptr, num_shown, "a line that it logs");
  return message.len > num_shown ? concat(shown, "... (", message.len, " bytes)") : std::string(shown);
}

}  // namespace

HostServices::HostServices(Log log, std::shared_ptr<KeyValueStore> store)
    : log_(std::move(log)), store_(std::move(store)) {}

/// One table for each plugin, so that a use after the end of its loan is blamed on the right one.
const tsr_host* HostServices::lend(const void* key, uint32_t minor, const void* lender, const char* until) const {
  const std::lock_guard lock(mutex_);
  const auto found = hosts_.find(key);
  if (found != hosts_.end()) return &found->second.table();
  const tsr_host functions{sizeof(tsr_host), minor, nullptr, &log_line, &get_service};
  auto* const self = const_cast<HostServices*>(this);
  return &hosts_.try_emplace(key, functions, self, "its tsr_host", lender, until).first->second.table();
}

const tsr_host* HostServices::of(const LoadedPlugin& plugin) const {
  return lend(plugin.interface, plugin.abi_minor, maker_of(plugin), "what it had made with it was destroyed");
}

const tsr_host* HostServices::before_query(tsr_plugin_query_fn query) const {
  const void* const entry = address_of(query);
  return lend(entry, TSR_ABI_MINOR, entry, "its function " TSR_ENTRY_SYMBOL " had returned");
}

void HostServices::log_line(void* ctx, int32_t level, tsr_str message) noexcept {
  try {
    // A newer plugin may use levels that this host does not know.
    const auto known = std::clamp(level, TSR_LOG_DEBUG, TSR_LOG_ERROR);
    const Log& log = borrowed<HostServices>(ctx, "log").log_;
    try {
      log.write(static_cast<LogLevel>(known), line_of(message));
    } catch (const Error& error) {
      log.warning(plugin_text(static_cast<const Loan*>(ctx)->lender), ": ", error.what());
    }
  } catch (...) {  // a log line that cannot be written must not end the plugin
  }
}

const void* HostServices::get_service(void* ctx, tsr_str id) noexcept {
  static constexpr tsr_kv_service kKeyValues{sizeof(tsr_kv_service), 0, &kv_set, &kv_get, &kv_add};
  const bool has_store = borrowed<HostServices>(ctx, "get_service").store_ != nullptr;
  return has_store && is_readable(id.ptr, id.len) && view(id) == TSR_KV_SERVICE ? &kKeyValues : nullptr;
}

tsr_status HostServices::kv_set(void* ctx, tsr_str key, const void* value, uint64_t num_bytes,
                                tsr_error* err) noexcept {
  return guard(err, "host", [&] {
    borrowed<HostServices>(ctx, "set").store_->set(key_of(key), readable(value, num_bytes, "the value"));
  });
}

tsr_status HostServices::kv_get(void* ctx, tsr_str key, void* value, uint64_t* num_bytes, int64_t timeout_ms,
                                tsr_error* err) noexcept {
  return guard(err, "host", [&] {
    if (timeout_ms < 0)
      throw Error(TSR_E_INVALID_ARGUMENT,
                  "the time-out of a get is " + std::to_string(timeout_ms) + " ms; 0 looks once");
    const uint64_t capacity = checked(num_bytes, "the pointer for the length");
    const std::string found = borrowed<HostServices>(ctx, "get").store_->get(key_of(key), timeout_ms);
    // The size is returned in any case, so the caller can make room and ask again.
    *num_bytes = found.size();
    if (found.size() > capacity)
      throw Error(TSR_E_RESOURCE_EXHAUSTED, "the value of key '" + tessera::to_string(key) + "' has " +
                                                std::to_string(found.size()) + " bytes; the caller has room for " +
                                                std::to_string(capacity));
    readable(value, found.size(), "the memory for the value");
    if (!found.empty()) std::memcpy(value, found.data(), found.size());
  });
}

tsr_status HostServices::kv_add(void* ctx, tsr_str key, int64_t delta, int64_t* result, tsr_error* err) noexcept {
  return guard(err, "host", [&] {
    checked(result, "the pointer for the result");
    *result = borrowed<HostServices>(ctx, "add").store_->add(key_of(key), delta);
  });
}

}  // namespace tessera::host
