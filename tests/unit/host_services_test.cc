// The host as each plugin of a rank sees it.
#include "plugins/host_services.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tessera::host
