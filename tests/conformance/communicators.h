// Over which communicators and group sizes the conformance suite runs. A new communicator adds its name here.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>

#include "support/comm_harness.h"
#include "support/plugin_loader.h"

namespace tessera::testing {

/// TESSERA_TEST_COMMUNICATOR=nccl-comm and TESSERA_TEST_DEVICE=cuda-device, or plugins' paths: that one alone, on such
/// devices.
inline std::vector<std::string> communicators() {
  if (const char* chosen = std::getenv("TESSERA_TEST_COMMUNICATOR")) return {chosen};
#ifdef TESSERA_HAS_GLOO
  return {"local-comm", "gloo-comm"};
#else
  return {"local-comm"};
#endif
}
/// Those that compare what ranks submit. NCCL, which works on a GPU's streams, does not.
inline std::vector<std::string> comparing_communicators() {
  const char* const device = std::getenv("TESSERA_TEST_DEVICE");
  return device && device != std::string("cpu-device") ? std::vector<std::string>() : communicators();
}
/// All, and with the options that change how bytes travel: "plugin:option=value".
inline std::vector<std::string> transports() {
  std::vector<std::string> all = communicators();
  if (std::ranges::find(all, "gloo-comm") != all.end()) all.push_back("gloo-comm:direct=off");
  return all;
}
inline constexpr int kGroupSizes[] = {1, 2, 3, 4, 7};

/// Parameters: plugin, number of ranks. Groups with more ranks than there are devices are skipped.
class CommunicatorTest : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  void SetUp() override {
    const std::string obstacle = obstacle_to(device(), num_ranks() - 1);
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
  }

  std::string plugin() const { return std::get<0>(GetParam()); }
  /// As its messages begin: "[gloo-comm] ".
  std::string domain() const {
    return "[" + std::filesystem::path(plugin().substr(0, plugin().find(':'))).stem().string() + "] ";
  }
  int num_ranks() const { return std::get<1>(GetParam()); }
  static std::string device() {
    const char* chosen = std::getenv("TESSERA_TEST_DEVICE");
    return chosen ? chosen : "cpu-device";
  }
  CommSpec spec(int64_t timeout_ms = kPatienceMs) const {
    return {plugin(), num_ranks(), "dp.test", timeout_ms, device()};
  }
  /// What the communicator says it can do with the device's streams.
  tsr_comm_caps caps() const {
    tsr_comm_caps caps{};
    caps.struct_size = sizeof caps;
    call(load_plugin<tsr_communicator_interface>(plugin().substr(0, plugin().find(':')), TSR_COMMUNICATOR_INTERFACE)
             .caps,
         load_plugin<tsr_device_interface>(device(), TSR_DEVICE_INTERFACE).stream_kind, &caps);
    return caps;
  }
  bool is_native() const { return device() != "cpu-device"; }

 private:
  /// Why device `index` cannot be opened here, or "". TESSERA_TEST_DEVICE_REQUIRED: the first must be there.
  static std::string obstacle_to(const std::string& device, int index) {
    if (device == "cpu-device") return "";
    static std::map<int, std::string> known;
    const auto [found, is_new] = known.try_emplace(index);
    if (!is_new) return found->second;
    MemoryKv store;
    const tsr_host host = store.host();
    const auto& table = load_plugin<tsr_device_interface>(device, TSR_DEVICE_INTERFACE);
    try {
      table.close(open_device(table, device, index, &host));
    } catch (const Error& error) {
      if (index == 0 && std::getenv("TESSERA_TEST_DEVICE_REQUIRED")) throw;
      found->second = error.what();
    }
    return found->second;
  }
};

inline std::string case_name(const ::testing::TestParamInfo<std::tuple<std::string, int>>& info) {
  std::string name = std::get<0>(info.param);
  if (name.find('/') != std::string::npos) name = std::filesystem::path(name).stem();
  name += "_" + std::to_string(std::get<1>(info.param));
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

/// Instantiates the tests of `suite` over `names` (communicators, transports) and group sizes.
#define TESSERA_OVER(names, suite, sizes)                                                                           \
  INSTANTIATE_TEST_SUITE_P(                                                                                         \
      All, suite, ::testing::Combine(::testing::ValuesIn(::tessera::testing::names()), ::testing::ValuesIn(sizes)), \
      ::tessera::testing::case_name)

}  // namespace tessera::testing
