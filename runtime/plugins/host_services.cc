// The functions of the host that plugins may call: log and key-value store. Any thread of a plugin may call them; they
// are noexcept, since no exception may cross the ABI.

#include "plugins/host_services.h"

#include <algorithm>
#include <cstring>

#include "tessera/error.hpp"

namespace tessera::host {

HostServices::HostServices(Log log, std::shared_ptr<KeyValueStore> store)
    : log_(std::move(log)),
      store_(std::move(store)),
      kv_{sizeof(tsr_kv_service), 0, &kv_set, &kv_get, &kv_add},
      host_{sizeof(tsr_host), TSR_ABI_MINOR, this, &log_line, &get_service} {}

const tsr_host* HostServices::of(const LoadedPlugin& plugin) const {
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = hosts_.try_emplace(plugin.interface, host_);
  if (is_new) found->second.abi_minor = plugin.abi_minor;
  return &found->second;
}

void HostServices::log_line(void* ctx, int32_t level, tsr_str message) noexcept {
  try {
    // A newer plugin may use levels that this host does not know.
    const auto known = std::clamp(level, TSR_LOG_DEBUG, TSR_LOG_ERROR);
    static_cast<HostServices*>(ctx)->log_.write(static_cast<LogLevel>(known), view(message));
  } catch (...) {  // a log line that cannot be written must not end the plugin
  }
}

const void* HostServices::get_service(void* ctx, tsr_str id) noexcept {
  const auto* self = static_cast<HostServices*>(ctx);
  return self->store_ && view(id) == TSR_KV_SERVICE ? &self->kv_ : nullptr;
}

tsr_status HostServices::kv_set(void* ctx, tsr_str key, const void* value, uint64_t num_bytes,
                                tsr_error* err) noexcept {
  return guard(err, "host", [&] {
    static_cast<HostServices*>(ctx)->store_->set(view(key), {static_cast<const char*>(value), num_bytes});
  });
}

tsr_status HostServices::kv_get(void* ctx, tsr_str key, void* value, uint64_t* num_bytes, int64_t timeout_ms,
                                tsr_error* err) noexcept {
  return guard(err, "host", [&] {
    if (timeout_ms < 0)
      throw Error(TSR_E_INVALID_ARGUMENT,
                  "the time-out of a get is " + std::to_string(timeout_ms) + " ms; 0 looks once");
    const std::string found = static_cast<HostServices*>(ctx)->store_->get(view(key), timeout_ms);
    const uint64_t capacity = *num_bytes;
    // The size is returned in any case, so the caller can make room and ask again.
    *num_bytes = found.size();
    if (found.size() > capacity)
      throw Error(TSR_E_RESOURCE_EXHAUSTED, "the value of key '" + tessera::to_string(key) + "' has " +
                                                std::to_string(found.size()) + " bytes; the caller has room for " +
                                                std::to_string(capacity));
    if (!found.empty()) std::memcpy(value, found.data(), found.size());
  });
}

tsr_status HostServices::kv_add(void* ctx, tsr_str key, int64_t delta, int64_t* result, tsr_error* err) noexcept {
  return guard(err, "host", [&] { *result = static_cast<HostServices*>(ctx)->store_->add(view(key), delta); });
}

}  // namespace tessera::host
