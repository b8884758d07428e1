// The host as each plugin of a rank sees it.
#include "plugins/host_services.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>

#include "launch/memory_store.h"
#include "plugins/loader.h"
#include "support/paths.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

const Log kQuiet(LogLevel::off);

LoadedPlugin load(const std::string& name) {
  return load_plugin(std::filesystem::path(testing::binary_dir("tests/bad_plugins")) / (name + ".so"), kQuiet);
}

TEST(HostServices, TellAPluginThatIsForLaterHostsTooTheSmallerMinor) {
  const LoadedPlugin later = load("later_too");
  EXPECT_EQ(later.abi_minor, TSR_ABI_MINOR);
  const HostServices host(kQuiet);
  const tsr_strategy_create_args args{sizeof args, 0, host.of(later), str("dp"), nullptr, 0};
  tsr_strategy* strategy = nullptr;
  call(later.strategy()->create, &args, &strategy);  // refuses a host that says another minor
}

TEST(HostServices, AreForEachPluginAHostOfTheMinorThatBothHave) {
  LoadedPlugin older = load("good");
  const LoadedPlugin policy = load("policy");
  older.abi_minor = 7;
  const HostServices host(kQuiet);
  EXPECT_EQ(host.of(older)->abi_minor, 7u);
  EXPECT_EQ(host.of(policy)->abi_minor, TSR_ABI_MINOR);
  EXPECT_EQ(host.of(older), host.of(older));
  EXPECT_EQ(host.before_query(nullptr)->abi_minor, TSR_ABI_MINOR);
}

TEST(HostServices, RefuseANegativeTimeout) {
  const HostServices host(kQuiet, std::make_shared<MemoryStore>());
  const tsr_host* const table = host.before_query(nullptr);
  const auto* kv = static_cast<const tsr_kv_service*>(table->get_service(table->ctx, str(TSR_KV_SERVICE)));
  uint64_t num_bytes = 0;
  tsr_error err{};
  EXPECT_EQ(kv->get(table->ctx, str("key"), nullptr, &num_bytes, -1, &err), TSR_E_INVALID_ARGUMENT);
  EXPECT_EQ(kv->get(table->ctx, str("key"), nullptr, &num_bytes, 0, &err), TSR_E_DEADLINE);
}

TEST(HostServices, RefuseWhatCannotBeRead) {
  std::ostringstream lines;
  const HostServices host(Log(lines, LogLevel::info), std::make_shared<MemoryStore>());
  const tsr_host* const table = host.before_query(nullptr);
  void* const ctx = table->ctx;
  const auto* kv = static_cast<const tsr_kv_service*>(table->get_service(ctx, str(TSR_KV_SERVICE)));
  const auto* const wild = reinterpret_cast<const char*>(64);
  uint64_t num_bytes = 5;
  char value[5] = {};
  int64_t sum = 0;
  tsr_error err{};
  const auto expect_refused = [&](tsr_status status, const std::string& part) {
    EXPECT_EQ(status, TSR_E_INVALID_ARGUMENT);
    EXPECT_NE(std::string(err.message).find(part), std::string::npos) << err.message;
  };
  expect_refused(kv->set(ctx, {nullptr, 5}, value, 5, &err), "the key is NULL, with a length of 5 bytes");
  expect_refused(kv->set(ctx, {wild, 5}, value, 5, &err), "the key points to memory that cannot be read");
  expect_refused(kv->set(ctx, {"key", UINT64_MAX}, value, 5, &err), "the key points to memory that cannot be read");
  expect_refused(kv->set(ctx, str("key"), nullptr, 5, &err), "the value is NULL, with a length of 5 bytes");
  expect_refused(kv->set(ctx, str("key"), wild, 5, &err), "the value points to memory that cannot be read");
  ASSERT_EQ(kv->set(ctx, str("key"), "value", 5, &err), TSR_OK);
  expect_refused(kv->get(ctx, str("key"), value, nullptr, 0, &err), "the pointer for the length is NULL");
  expect_refused(kv->get(ctx, str("key"), nullptr, &num_bytes, 0, &err), "the memory for the value is NULL");
  expect_refused(kv->add(ctx, {wild, 5}, 1, &sum, &err), "the key points to memory that cannot be read");
  expect_refused(kv->add(ctx, str("key"), 1, nullptr, &err), "the pointer for the result is NULL");
  EXPECT_EQ(table->get_service(ctx, {wild, 8}), nullptr);
  table->log(ctx, TSR_LOG_INFO, {wild, 8});
  EXPECT_NE(lines.str().find("a line that it logs points to memory that cannot be read"), std::string::npos);
  table->log(ctx, TSR_LOG_INFO, str(std::string(5'000, 'x')));
  EXPECT_NE(lines.str().find(std::string(4'096, 'x') + "... (5000 bytes)"), std::string::npos);
}

}  // namespace
}  // namespace tessera::host
