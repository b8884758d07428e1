// A fault after which CUDA wants the process to end, as the device plugin tells it: DATA_LOSS from everything.
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/failure.h"
#include "support/comm_harness.h"
#include "support/expect_error.h"
#include "support/memory_kv.h"
#include "support/plugin_loader.h"

namespace tessera::testing {
namespace {

tsr_status status_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return TSR_OK;
}

TEST(CudaDevice, ThatIsGoneSaysSoFromThenOn) {
  const std::string plugin = std::getenv("TESSERA_TEST_DEVICE");
  const auto& table = load_plugin<tsr_device_interface>(plugin, TSR_DEVICE_INTERFACE);
  MemoryKv store;
  const tsr_host host = store.host();
  tsr_device* const device = open_device(table, plugin, 0, &host);
  tsr_stream *stream = nullptr, *next = nullptr;
  void* memory = nullptr;
  call(table.stream_create, device, str("test"), &stream);
  const auto work = [&] { call(table.stream_synchronize, stream, kPatienceMs); };
  const auto make_stream = [&] { call(table.stream_create, device, str("next"), &next); };
  const auto allocate = [&] { call(table.allocate, device, TSR_MEMORY_DEVICE, uint64_t{4096}, &memory); };
  EXPECT_EQ(status_of(work), TSR_OK);
  for (const cudaError_t error : {cudaErrorIllegalAddress, cudaErrorLaunchFailure}) {
    cuda_on_cpu::fail_device(error, "a test");
    EXPECT_EQ(status_of(work), TSR_E_DATA_LOSS);
    EXPECT_EQ(status_of(make_stream), TSR_E_DATA_LOSS);
    EXPECT_EQ(status_of(allocate), TSR_E_DATA_LOSS);
    cuda_on_cpu::forget_failure();
  }
  table.stream_destroy(stream);
  table.close(device);
}

}  // namespace
}  // namespace tessera::testing
