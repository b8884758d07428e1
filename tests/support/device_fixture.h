// An open device, used through the C table of a device plugin; the parameter is the plugin's name or path. Tests of a
// device that cannot be opened on this machine are skipped, unless TESSERA_TEST_DEVICE_REQUIRED is set.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/paths.h"
#include "support/patience.h"
#include "support/plugin_loader.h"
#include "tessera/device.h"
#include "tessera/error.hpp"

namespace tessera::testing {

/// An open device; what it makes is destroyed in the right order.
class DeviceFixture : public ::testing::TestWithParam<std::string> {
 protected:
  using Stream = std::unique_ptr<tsr_stream, void (*)(tsr_stream*)>;
  using Event = std::unique_ptr<tsr_event, void (*)(tsr_event*)>;
  using Kernel = std::unique_ptr<tsr_kernel, void (*)(tsr_kernel*)>;

  void SetUp() override {
    host_.struct_size = sizeof host_;
    host_.abi_minor = TSR_ABI_MINOR;
    host_.log = [](void*, int32_t, tsr_str) noexcept {};
    host_.get_service = [](void*, tsr_str) noexcept -> const void* { return nullptr; };
    tsr_device_open_args args{};
    args.struct_size = sizeof args;
    args.num_threads = 1;
    args.host = &host_;
    args.options = options_.data();
    args.num_options = options_.size();
    tsr_error err{};
    const tsr_status status = table_.open(&args, &device_, &err);
    if (status == TSR_E_UNAVAILABLE && !std::getenv("TESSERA_TEST_DEVICE_REQUIRED")) GTEST_SKIP() << err.message;
    check(status, err);
  }

  void TearDown() override {
    for (const auto& [memory, pointer] : memory_)
      table_.release(device_, memory, pointer);
    table_.close(device_);
  }

  Stream make_stream(const char* name) {
    tsr_stream* stream = nullptr;
    call(table_.stream_create, device_, str(name), &stream);
    return Stream(stream, table_.stream_destroy);
  }
  Event make_event() {
    tsr_event* event = nullptr;
    call(table_.event_create, device_, &event);
    return Event(event, table_.event_destroy);
  }
  Kernel prepare(const tsr_op& op, const std::vector<tsr_slot_spec>& slots) {
    tsr_kernel* kernel = nullptr;
    call(table_.prepare, device_, &op, slots.data(), slots.size(), &kernel);
    return Kernel(kernel, table_.kernel_destroy);
  }
  void* allocate(uint32_t memory, uint64_t num_bytes) {
    void* pointer = nullptr;
    call(table_.allocate, device_, memory, num_bytes, &pointer);
    memory_.emplace_back(memory, pointer);
    return pointer;
  }
  std::vector<tsr_slot_spec> describe(const tsr_op& op) const { return describe_op(table_, op); }
  void launch(const Kernel& kernel, const Stream& stream, const std::vector<void*>& pointers) {
    call(table_.launch, kernel.get(), stream.get(), pointers.data(), pointers.size());
  }
  void copy(const Stream& stream, void* dst, const void* src, uint64_t num_bytes) {
    call(table_.copy, stream.get(), dst, src, num_bytes);
  }
  void synchronize(const Stream& stream) { call(table_.stream_synchronize, stream.get(), kPatienceMs); }
  /// Queues `f`, which must outlive its run.
  template <class F>
  void run_on(const Stream& stream, F& f) {
    const tsr_host_function function = [](void* user, tsr_error*) noexcept -> tsr_status {
      (*static_cast<F*>(user))();
      return TSR_OK;
    };
    call(table_.host_function, stream.get(), function, &f);
  }
  void fail(const Stream& stream) {
    const tsr_host_function function = [](void*, tsr_error* err) noexcept -> tsr_status {
      fill_error(err, TSR_E_ABORTED, "elsewhere", "rank 3 went away", 3);
      return TSR_E_ABORTED;
    };
    call(table_.host_function, stream.get(), function, nullptr);
  }
  void expect_failed(const Stream& stream) {
    tsr_error err{};
    EXPECT_EQ(table_.stream_synchronize(stream.get(), kPatienceMs, &err), TSR_E_ABORTED);
    EXPECT_EQ(err.code, TSR_E_ABORTED);
    EXPECT_EQ(err.rank, 3);
    EXPECT_STREQ(err.message, "rank 3 went away");
  }

  const tsr_device_interface& table_ = load_plugin<tsr_device_interface>(GetParam(), TSR_DEVICE_INTERFACE);
  const std::vector<tsr_option_value> options_ = default_options(GetParam());
  tsr_host host_{};
  tsr_device* device_ = nullptr;
  std::vector<std::pair<uint32_t, void*>> memory_;
};

/// The devices to test, for INSTANTIATE_TEST_SUITE_P: the one that TESSERA_TEST_DEVICE names, a plugin's name or path,
/// or all that are built.
inline auto built_devices() {
  std::vector<std::string> names;
  if (const char* name = std::getenv("TESSERA_TEST_DEVICE")) {
    names = {name};
  } else {
    for (const char* built : {"cpu-device", "cuda-device"})
      if (std::filesystem::exists(plugin_dir() + "/" + built + ".so")) names.push_back(built);
  }
  return ::testing::ValuesIn(names);
}
inline std::string device_name(const ::testing::TestParamInfo<std::string>& tested) {
  std::string name = std::filesystem::path(tested.param).stem();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

}  // namespace tessera::testing
