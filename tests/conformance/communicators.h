// Over which communicators and group sizes the conformance suite runs, and what it asks of each: all that
// communicator.h and plugin-abi.md demand, of what its caps claim. Of the repository's own, whose sentences the C++
// layer makes, it asks for these too. A new communicator of the repository adds its name here.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "conformance/caught_error.h"
#include "support/comm_harness.h"
#include "support/plugin_loader.h"
#include "tessera/communicator.hpp"

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

/// A collective that a test submits, as caps list it.
struct Use {
  uint32_t kind;
  uint32_t reduce = 0;
  tsr_dtype dtype = TSR_F32;
};
inline constexpr Use kSum{TSR_COLL_ALL_REDUCE, TSR_REDUCE_SUM};

inline bool claims(const tsr_comm_caps& caps, const Use& use) {
  return is_claimed(caps, make_collective(use.kind, use.dtype, 0, nullptr, nullptr, use.reduce));
}
inline std::string text_of(const Use& use) {
  std::string text = collective_name(use.kind);
  if (use.reduce != 0) text += std::string(" ") + reduce_name(use.reduce);
  return use.kind == TSR_COLL_BARRIER ? text : text + " " + dtype_name(use.dtype);
}

/// Parameters: plugin, number of ranks. Groups with more ranks than there are devices are skipped.
class CommunicatorTest : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  void SetUp() override {
    const std::string obstacle = obstacle_to(device(), num_ranks() - 1);
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
  }

  std::string plugin() const { return std::get<0>(GetParam()); }
  /// "gloo-comm", whatever its options and folder.
  std::string stem() const { return std::filesystem::path(plugin().substr(0, plugin().find(':'))).stem(); }
  /// As the C++ layer begins its sentences: "[gloo-comm] dp.test ".
  std::string prefix() const { return "[" + stem() + "] dp.test "; }
  /// Whether it is one of the repository's own.
  bool is_shipped() const {
    const std::array names = {"local-comm", "gloo-comm", "nccl-comm"};
    return std::ranges::find(names, stem()) != names.end();
  }
  int num_ranks() const { return std::get<1>(GetParam()); }
  static std::string device() {
    const char* chosen = std::getenv("TESSERA_TEST_DEVICE");
    return chosen ? chosen : "cpu-device";
  }
  CommSpec spec(int64_t timeout_ms = kPatienceMs) const {
    return {plugin(), num_ranks(), "dp.test", timeout_ms, device()};
  }
  const tsr_communicator_interface& table() const {
    return load_plugin<tsr_communicator_interface>(plugin(), TSR_COMMUNICATOR_INTERFACE);
  }
  static tsr_str stream_kind() { return load_plugin<tsr_device_interface>(device(), TSR_DEVICE_INTERFACE).stream_kind; }
  /// What the communicator says it can do with the device's streams.
  tsr_comm_caps caps() const {
    tsr_comm_caps caps{};
    caps.struct_size = sizeof caps;
    call(table().caps, stream_kind(), &caps);
    return caps;
  }
  /// What of `uses` the communicator does not claim, in words; "" if it claims them all.
  std::string gap(const std::vector<Use>& uses) const {
    const tsr_comm_caps caps = this->caps();
    const auto missing = std::ranges::find_if(uses, [&](const Use& use) { return !claims(caps, use); });
    return missing == uses.end() ? "" : stem() + " does not claim " + text_of(*missing);
  }
  /// The code and the `parts` of the text, which any communicator's error has; of one of the repository, `words` too.
  void expect_refusal(const Error& error, tsr_status code, const std::vector<std::string>& parts,
                      const std::vector<std::string>& words) const {
    expect_parts(error, code, parts);
    if (is_shipped()) expect_parts(error, code, words);
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

/// Skips a test that submits what the communicator does not claim: TESSERA_USES(kSum, {TSR_COLL_BARRIER});
#define TESSERA_USES(...) \
  if (const std::string missing = gap({__VA_ARGS__}); !missing.empty()) GTEST_SKIP() << missing

/// Instantiates the tests of `suite` over `names` (communicators, transports) and group sizes.
#define TESSERA_OVER(names, suite, sizes)                                                                           \
  INSTANTIATE_TEST_SUITE_P(                                                                                         \
      All, suite, ::testing::Combine(::testing::ValuesIn(::tessera::testing::names()), ::testing::ValuesIn(sizes)), \
      ::tessera::testing::case_name)

}  // namespace tessera::testing
