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

Found open_device(const std::string& name) {
  Found found{make_runner(name), nullptr, ""};
  try {
    found.runner->open();
  } catch (const Error& error) {
    if (error.code() != TSR_E_UNAVAILABLE) throw;
    found.reason = error.what();
    return found;
  }
  static DeviceRunner* const cpu = make_runner(kCpu).release();
  if (name == kCpu)
    found.device = std::make_unique<CheckedDevice>(CheckedDevice{*found.runner, {1, 2, 3}, nullptr});
  else
    found.device = std::make_unique<CheckedDevice>(CheckedDevice{*found.runner, {1}, cpu});
  return found;
}

}  // namespace

const CheckedDevice* find_device(const std::string& name, std::string* reason) {
  static auto& devices = *new std::map<std::string, Found>;  // never closed: CUDA may be gone when the program ends
  auto found = devices.find(name);
  if (found == devices.end()) found = devices.emplace(name, open_device(name)).first;
  *reason = found->second.reason;
  return found->second.device.get();
}

}  // namespace tessera::testing
