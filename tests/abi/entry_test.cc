// What the ABI demands of the entry of every plugin: of those in plugins/ and of the templates.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "support/paths.h"
#include "tessera/communicator.h"
#include "tessera/device.h"
#include "tessera/error.hpp"
#include "tessera/offload.h"
#include "tessera/strategy.h"

namespace tessera::testing {
namespace {

constexpr tsr_handshake kHandshake = {
    TSR_MAGIC, sizeof(tsr_handshake), TSR_ABI_MAJOR, TSR_ABI_MINOR, TSR_ABI_MINOR, 0, 0, 8 * sizeof(void*), 0};

size_t num_threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

class Entry : public ::testing::TestWithParam<std::string> {
 protected:
  Entry() {
    void* library = dlopen(binary_dir(GetParam()).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) throw Error(TSR_E_NOT_FOUND, dlerror());
    query_ = reinterpret_cast<tsr_plugin_query_fn>(dlsym(library, TSR_ENTRY_SYMBOL));
    if (!query_) throw Error(TSR_E_NOT_FOUND, "no " TSR_ENTRY_SYMBOL);
  }

  const tsr_factory& factory() {
    tsr_handshake io = kHandshake;
    const tsr_factory* factory = nullptr;
    call(query_, &io, nullptr, &factory);
    return *factory;
  }
  const void* interface(std::string_view id) { return factory().get_interface(str(id)); }

  void refuses(const tsr_handshake& handshake) {
    tsr_handshake io = handshake;
    tsr_error err{};
    const tsr_factory* factory = nullptr;
    EXPECT_EQ(query_(&io, nullptr, &factory, &err), TSR_E_ABI);
    EXPECT_EQ(err.code, TSR_E_ABI);
    EXPECT_LT(strnlen(err.message, sizeof err.message), sizeof err.message) << "not zero-terminated";
    EXPECT_GT(strnlen(err.message, sizeof err.message), 20u) << "no sentence: " << err.message;
    EXPECT_EQ(view(this->factory().descriptor->name), std::string_view(err.domain));
    EXPECT_EQ(factory, nullptr);
  }

  tsr_plugin_query_fn query_ = nullptr;
};

TEST_P(Entry, GivesTheSameEveryTime) {
  const tsr_factory &first = factory(), &second = factory();
  EXPECT_EQ(&first, &second);
  EXPECT_EQ(first.descriptor, second.descriptor);
}

TEST_P(Entry, StartsNoThread) {
  const size_t before = num_threads();
  factory();
  EXPECT_EQ(num_threads(), before);
}

TEST_P(Entry, RefusesAHostItDoesNotKnow) {
  tsr_handshake io = kHandshake;
  io.magic ^= 1;
  refuses(io);
  io = kHandshake;
  io.abi_major = TSR_ABI_MAJOR + 1;
  refuses(io);
  io = kHandshake;
  io.pointer_bits = 32;
  refuses(io);
  io = kHandshake;
  io.host_minor_min = io.host_minor_max = TSR_ABI_MINOR + 1;
  refuses(io);
  io = kHandshake;
  io.host_minor_min = 0;
  io.host_minor_max = TSR_ABI_MINOR - 1;
  refuses(io);
}

TEST_P(Entry, SaysWhatItSpeaksEvenWhenItRefuses) {
  tsr_handshake io = kHandshake;
  io.host_minor_min = io.host_minor_max = TSR_ABI_MINOR + 1;
  io.plugin_minor_min = io.plugin_minor_max = io.plugin_abi_major = 77;
  tsr_error err{};
  const tsr_factory* factory = nullptr;
  query_(&io, nullptr, &factory, &err);
  EXPECT_EQ(io.plugin_abi_major, TSR_ABI_MAJOR);
  EXPECT_EQ(io.plugin_minor_min, TSR_ABI_MINOR);
  EXPECT_EQ(io.plugin_minor_max, TSR_ABI_MINOR);
}

TEST_P(Entry, AcceptsAHostWhoseRangeHoldsItsMinor) {
  tsr_handshake io = kHandshake;
  io.host_minor_min = 0;
  io.host_minor_max = TSR_ABI_MINOR + 90;
  tsr_error err{};
  const tsr_factory* factory = nullptr;
  EXPECT_EQ(query_(&io, nullptr, &factory, &err), TSR_OK) << err.message;
}

TEST_P(Entry, HasNoTableForAnIdItDoesNotKnow) {
  for (const std::string id :
       {TSR_STRATEGY_INTERFACE, TSR_COMMUNICATOR_INTERFACE, TSR_DEVICE_INTERFACE, TSR_OFFLOAD_INTERFACE}) {
    EXPECT_EQ(interface(id + "0"), nullptr);
    EXPECT_EQ(interface(id.substr(0, id.size() - 1)), nullptr);
  }
  EXPECT_EQ(interface("tsr.nothing/1"), nullptr);
  EXPECT_EQ(interface(""), nullptr);
}

TEST_P(Entry, HasTheTableOfItsKindAlone) {
  const std::string kind = to_string(factory().descriptor->kind);
  EXPECT_EQ(interface(TSR_STRATEGY_INTERFACE) != nullptr, kind == TSR_KIND_STRATEGY);
  EXPECT_EQ(interface(TSR_COMMUNICATOR_INTERFACE) != nullptr, kind == TSR_KIND_COMMUNICATOR);
  EXPECT_EQ(interface(TSR_DEVICE_INTERFACE) != nullptr, kind == TSR_KIND_DEVICE);
  EXPECT_EQ(interface(TSR_OFFLOAD_INTERFACE) != nullptr, kind == TSR_KIND_OFFLOAD);
}

TEST_P(Entry, DestroysNothingWithoutHarm) {
  if (const void* table = interface(TSR_STRATEGY_INTERFACE))
    static_cast<const tsr_strategy_interface*>(table)->destroy(nullptr);
  if (const void* table = interface(TSR_COMMUNICATOR_INTERFACE))
    static_cast<const tsr_communicator_interface*>(table)->destroy(nullptr);
  if (const void* table = interface(TSR_DEVICE_INTERFACE)) {
    const auto& device = *static_cast<const tsr_device_interface*>(table);
    device.stream_destroy(nullptr);
    device.event_destroy(nullptr);
    device.kernel_destroy(nullptr);
    device.close(nullptr);
  }
  if (const void* table = interface(TSR_OFFLOAD_INTERFACE))
    static_cast<const tsr_offload_interface*>(table)->destroy(nullptr);
}

INSTANTIATE_TEST_SUITE_P(Plugins, Entry, ::testing::Values(TESSERA_PLUGINS), [](const auto& test) {
  std::string name = std::filesystem::path(test.param).stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace tessera::testing
