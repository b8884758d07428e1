#include "support/file_kv.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tessera/key_value.hpp"

namespace tessera::testing {
namespace {

FileKv& of(void* ctx) {
  return *static_cast<FileKv*>(ctx);
}

constexpr tsr_kv_service kService = {
    sizeof(tsr_kv_service), 0,
    [](void* ctx, tsr_str key, const void* value, uint64_t num_bytes, tsr_error* err) noexcept {
      return guard(err, "kv",
                   [&] { of(ctx).set(to_string(key), std::string(static_cast<const char*>(value), num_bytes)); });
    },
    [](void* ctx, tsr_str key, void* value, uint64_t* num_bytes, int64_t timeout_ms, tsr_error* err) noexcept {
      return guard(err, "kv", [&] {
        std::string found;
        if (!of(ctx).get(to_string(key), timeout_ms, found)) throw Error(TSR_E_DEADLINE, "no key " + to_string(key));
        if (found.size() > *num_bytes) throw Error(TSR_E_RESOURCE_EXHAUSTED, "the value is too long");
        std::copy(found.begin(), found.end(), static_cast<char*>(value));
        *num_bytes = found.size();
      });
    },
    [](void*, tsr_str, int64_t, int64_t*, tsr_error* err) noexcept {
      return guard(err, "kv", [] { throw Error(TSR_E_UNSUPPORTED, "this store has no counters"); });
    }};

}  // namespace

std::string FileKv::path_of(const std::string& key) const {
  std::string name = key;
  std::replace(name.begin(), name.end(), '/', '+');
  return folder_ + "/" + name;
}

void FileKv::set(const std::string& key, const std::string& value) const {
  const std::string path = path_of(key), draft = path + ".draft." + std::to_string(getpid());
  std::ofstream(draft, std::ios::binary) << value;
  std::filesystem::rename(draft, path);
}

bool FileKv::get(const std::string& key, int64_t timeout_ms, std::string& value) const {
  const Deadline deadline(timeout_ms);
  for (;;) {
    std::ifstream file(path_of(key), std::ios::binary);
    if (file) {
      value.assign(std::istreambuf_iterator<char>(file), {});
      return true;
    }
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

tsr_host FileKv::host() {
  tsr_host host{};
  host.struct_size = sizeof host;
  host.abi_minor = TSR_ABI_MINOR;
  host.ctx = this;
  host.log = [](void*, int32_t, tsr_str) noexcept {};
  host.get_service = [](void*, tsr_str id) noexcept -> const void* {
    return view(id) == TSR_KV_SERVICE ? &kService : nullptr;
  };
  return host;
}

}  // namespace tessera::testing
