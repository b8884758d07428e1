// googletest's fixtures for the ops of every device that is built: parameters are a device and, if any, extents. A
// device that cannot be opened here skips its tests, unless TESSERA_TEST_DEVICE_REQUIRED is set.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "support/device_fixture.h"
#include "support/op_check.h"

namespace tessera::testing {

/// The device, opened at the first call and kept until all tests have run; nullptr where it cannot be, and then *reason
/// says why. Devices other than the CPU's have that for a peer.
const CheckedDevice* find_device(const std::string& name, std::string* reason);

class DeviceUnderTest : public virtual ::testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    device_ = find_device(name_of_device(), &reason);
    if (device_) return;
    if (std::getenv("TESSERA_TEST_DEVICE_REQUIRED")) FAIL() << reason;
    GTEST_SKIP() << reason;
  }
  virtual std::string name_of_device() const = 0;

  const CheckedDevice& device() const { return *device_; }
  DeviceRunner& runner() const { return device_->runner; }

 private:
  const CheckedDevice* device_ = nullptr;
};

/// A test of a device.
class DeviceOpTest : public DeviceUnderTest, public ::testing::WithParamInterface<std::string> {
  std::string name_of_device() const override { return GetParam(); }
};

/// A test of a device on extents.
template <class Extents>
class DeviceOpTestOf : public DeviceUnderTest, public ::testing::WithParamInterface<std::tuple<std::string, Extents>> {
 protected:
  using Base = ::testing::WithParamInterface<std::tuple<std::string, Extents>>;
  const Extents& extents() const { return std::get<1>(Base::GetParam()); }

 private:
  std::string name_of_device() const override { return std::get<0>(Base::GetParam()); }
};

/// "cuda_device_3": the device, and which of the extents.
template <class Extents>
std::string device_and_index(const ::testing::TestParamInfo<std::tuple<std::string, Extents>>& tested) {
  return device_name({std::get<0>(tested.param), tested.index}) + "_" + std::to_string(tested.index);
}

}  // namespace tessera::testing

/// Runs the tests of `suite` on every device, on the extents if there are any.
#define TESSERA_EVERY_DEVICE(suite) \
  INSTANTIATE_TEST_SUITE_P(Devices, suite, ::tessera::testing::built_devices(), ::tessera::testing::device_name)
#define TESSERA_EVERY_DEVICE_ON(suite, Extents, ...)                                                                \
  INSTANTIATE_TEST_SUITE_P(Devices, suite,                                                                          \
                           ::testing::Combine(::tessera::testing::built_devices(), ::testing::Values(__VA_ARGS__)), \
                           ::tessera::testing::device_and_index<Extents>)
