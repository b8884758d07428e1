#include "gpu/matrix_rate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "exec/device.h"
#include "plugins/host_services.h"
#include "plugins/loader.h"
#include "plugins/plugin_options.h"
#include "tessera/error.hpp"
#include "tessera/half.hpp"

namespace tessera::testing {
using namespace host;
namespace {

constexpr int kProducts = 10;
constexpr int64_t kTimeoutMs = 60'000;

/// A linear layer without a bias: N x in times in x out.
tsr_op product(int64_t extent) {
  tsr_op op{};
  op.struct_size = sizeof op;
  op.kind = TSR_OP_LINEAR;
  op.phase = TSR_PHASE_FORWARD;
  op.dtype = TSR_BF16;
  op.gradient_dtype = TSR_F32;
  op.dims[TSR_DIM_BATCH] = 1;
  op.dims[TSR_DIM_SEQ] = op.dims[TSR_DIM_IN] = op.dims[TSR_DIM_OUT] = extent;
  return op;
}

void fill_with_noise(const Device& device, tsr_stream* stream, void* to, uint64_t num_elements) {
  std::minstd_rand random(1);
  std::vector<uint16_t> values(num_elements);
  for (uint16_t& value : values)
    value = float_to_bf16(static_cast<float>(random()) / 2147483648.0f - 0.5f);
  call(device.api().copy, stream, to, values.data(), values.size() * sizeof(uint16_t));
  call(device.api().stream_synchronize, stream, kTimeoutMs);
}

}  // namespace

double measure_matrix_rate(const std::string& path, int64_t extent) {
  const Log log(LogLevel::warning);
  const LoadedPlugin plugin = load_plugin(path, log);
  const HostServices host(log);
  const PluginOptions options(plugin, "", {});
  const Device device({.api = plugin.device(), .options = options.values(), .host = host.of(plugin)});
  const StreamHandle stream = make_stream(device, "compute");
  const tsr_op op = product(extent);
  const std::vector<tsr_slot_spec> slots = describe(device.api(), op);
  std::vector<Arena> operands;
  std::vector<void*> pointers;
  for (const tsr_slot_spec& slot : slots) {
    operands.emplace_back(device, TSR_MEMORY_DEVICE, TSR_NUM_BYTES(slot.dtype, slot.num_elements));
    pointers.push_back(operands.back().at(0));
    if (slot.mode == TSR_MODE_READ) fill_with_noise(device, stream.get(), pointers.back(), slot.num_elements);
  }
  const KernelHandle kernel = make_kernel(device, op, slots);
  std::vector<double> rates;
  for (int group = 0; group <= kProducts; ++group) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kProducts; ++i)
      call(device.api().launch, kernel.get(), stream.get(), pointers.data(), pointers.size());
    call(device.api().stream_synchronize, stream.get(), kTimeoutMs);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const double operations = 2 * std::pow(static_cast<double>(extent), 3) * kProducts;
    if (group > 0) rates.push_back(operations / seconds.count() / 1e12);
  }
  std::ranges::sort(rates);
  return rates[rates.size() / 2];
}

}  // namespace tessera::testing
