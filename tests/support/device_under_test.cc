#include "support/device_under_test.h"

#include <map>
#include <memory>

namespace tessera::testing {
namespace {

constexpr const char* kCpu = "cpu-device";

struct Found {
  std::unique_ptr<DeviceRunner> runner;
  std::unique_ptr<CheckedDevice> device;  // null when it cannot be opened
  std::string reason;
};

std::unique_ptr<DeviceRunner> make_runner(const std::string& name) {
  return std::make_unique<DeviceRunner>(load_plugin<tsr_device_interface>(name, TSR_DEVICE_INTERFACE),
                                        default_options(name));
}

// Closed after the last test: later CUDA may be gone.
class Devices : public ::testing::Environment {
 public:
  void TearDown() override {
    by_name_.clear();
    cpu_.reset();
  }

  const Found& find(const std::string& name) {
    auto found = by_name_.find(name);
    if (found == by_name_.end()) found = by_name_.emplace(name, open(name)).first;
    return found->second;
  }

 private:
  Found open(const std::string& name) {
    Found found{make_runner(name), nullptr, ""};
    try {
      found.runner->open();
    } catch (const Error& error) {
      if (error.code() != TSR_E_UNAVAILABLE) throw;
      found.reason = error.what();
      return found;
    }
    if (name == kCpu) {
      found.device = std::make_unique<CheckedDevice>(CheckedDevice{*found.runner, {1, 2, 3}, nullptr});
    } else {
      if (!cpu_) cpu_ = make_runner(kCpu);
      found.device = std::make_unique<CheckedDevice>(CheckedDevice{*found.runner, {1}, cpu_.get()});
    }
    return found;
  }

  std::map<std::string, Found> by_name_;
  std::unique_ptr<DeviceRunner> cpu_;  // the peer of the others
};

// googletest's own, from before its first test.
Devices& devices = static_cast<Devices&>(*::testing::AddGlobalTestEnvironment(new Devices));

}  // namespace

const CheckedDevice* find_device(const std::string& name, std::string* reason) {
  const Found& found = devices.find(name);
  *reason = found.reason;
  return found.device.get();
}

}  // namespace tessera::testing
