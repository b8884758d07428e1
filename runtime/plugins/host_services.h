// What the host offers to plugins: a tsr_host for each plugin of a rank, with the rank's log and the job's key-value
// store.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "base/log.h"
#include "guard/lent_table.h"
#include "launch/key_value_store.h"
#include "plugins/loaded_plugin.h"
#include "tessera/core.h"

namespace tessera::host {

/// A rank's hosts. Must outlive everything that plugins made with them; a plugin that uses one later ends the run.
class HostServices {
 public:
  /// Without a `store` there is no key-value service (planning and `plugins info` need none).
  explicit HostServices(Log log, std::shared_ptr<KeyValueStore> store = nullptr);
  HostServices(const HostServices&) = delete;
  HostServices& operator=(const HostServices&) = delete;

  /// That of the plugin, with the minor that host and plugin have in common. [any-thread]
  const tsr_host* of(const LoadedPlugin& plugin) const;
  /// For a plugin's `query`, when its minor is not known yet: this host's minor. [any-thread]
  const tsr_host* before_query(tsr_plugin_query_fn query) const;

 private:
  const tsr_host* lend(const void* key, uint32_t minor, const void* lender, const char* until) const;
  static void log_line(void* ctx, int32_t level, tsr_str message) noexcept;
  static const void* get_service(void* ctx, tsr_str id) noexcept;
  static tsr_status kv_set(void* ctx, tsr_str key, const void* value, uint64_t num_bytes, tsr_error* err) noexcept;
  static tsr_status kv_get(void* ctx, tsr_str key, void* value, uint64_t* num_bytes, int64_t timeout_ms,
                           tsr_error* err) noexcept;
  static tsr_status kv_add(void* ctx, tsr_str key, int64_t delta, int64_t* result, tsr_error* err) noexcept;

  Log log_;
  std::shared_ptr<KeyValueStore> store_;
  mutable std::mutex mutex_;
  mutable std::map<const void*, LentTable<tsr_host>> hosts_;  // guarded by mutex_: by the plugin's table, or its query
};

}  // namespace tessera::host
