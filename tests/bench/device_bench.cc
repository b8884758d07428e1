// What a step costs beside its segments: elementwise and step ops over 64 Mi elements, which no cache holds, streams,
// and the guard around calls of plugins. One thread; kernels by their own processor time.
#include <benchmark/benchmark.h>

#include <vector>

#include "cpu-device/stream.h"
#include "guard/plugin_calls.h"
#include "support/cpu_kernel.h"
#include "support/device_ops.h"

namespace tessera {
namespace {

constexpr uint64_t kNumElements = uint64_t{1} << 26;
constexpr int64_t kTimeoutMs = 60000;

void run_kernel(benchmark::State& state, tsr_op op) {
  const tsr_op_range all = {0, kNumElements, 0.1, 1.0};
  op.ranges = &all;
  op.num_ranges = 1;
  const auto slots = cpu::describe_op(op);
  std::vector<std::vector<double>> memory;
  std::vector<void*> pointers;
  for (const auto& slot : slots) {
    memory.emplace_back(TSR_NUM_BYTES(slot.dtype, slot.num_elements) / sizeof(double));
    if (slot.dtype == TSR_F32)
      for (uint64_t i = 0; i < slot.num_elements; ++i)
        reinterpret_cast<float*>(memory.back().data())[i] = 1e-3f * static_cast<float>(i % 1000);
    if (slot.num_elements == 1 || slot.num_elements == 3)  // step count, learning rate, clip: any positive value
      std::fill(memory.back().begin(), memory.back().end(), 1.0);
    pointers.push_back(memory.back().data());
  }
  for (auto _ : state)
    testing::run_op(op, pointers);
  state.counters["elements"] = benchmark::Counter(kNumElements, benchmark::Counter::kIsIterationInvariantRate);
}

tsr_op optimizer(uint32_t kind) {
  tsr_op op = testing::make_op(kind, kNumElements);
  op.attributes[TSR_ATTR_BETA1] = 0.9;
  op.attributes[TSR_ATTR_BETA2] = 0.95;
  op.attributes[TSR_ATTR_EPSILON] = 1e-8;
  return op;
}

BENCHMARK_CAPTURE(run_kernel, sum_squares, testing::make_op(TSR_OP_SUM_SQUARES, kNumElements));
BENCHMARK_CAPTURE(run_kernel, adamw, optimizer(TSR_OP_ADAMW));
BENCHMARK_CAPTURE(run_kernel, sgd, optimizer(TSR_OP_SGD));
BENCHMARK_CAPTURE(run_kernel, copy, testing::make_op(TSR_OP_COPY, kNumElements));
BENCHMARK_CAPTURE(run_kernel, add_into, testing::make_op(TSR_OP_ADD_INTO, kNumElements));
BENCHMARK_CAPTURE(run_kernel, cast_to_bf16, testing::make_op(TSR_OP_CAST, kNumElements, TSR_F32, TSR_BF16));
BENCHMARK_CAPTURE(run_kernel, cast_to_f16, testing::make_op(TSR_OP_CAST, kNumElements, TSR_F32, TSR_F16));

void submit_and_run(benchmark::State& state) {
  cpu::Stream stream("bench", 1);
  constexpr int kNumWorks = 1000;
  for (auto _ : state) {
    for (int i = 0; i < kNumWorks; ++i)
      stream.fill(nullptr, 0, 0);
    stream.synchronize(kTimeoutMs);
  }
  state.SetItemsProcessed(state.iterations() * kNumWorks);
}
BENCHMARK(submit_and_run)->UseRealTime();

tsr_status do_nothing(int* number, tsr_error*) noexcept {
  benchmark::DoNotOptimize(++*number);
  return TSR_OK;
}
/// A call of a plugin's function that does almost nothing.
template <bool is_guarded>
void call_of_a_plugin(benchmark::State& state) {
  auto* function = &do_nothing;
  benchmark::DoNotOptimize(function);
  int number = 0;
  tsr_error err{};
  for (auto _ : state)
    benchmark::DoNotOptimize(is_guarded ? host::enter(function, &number, &err) : function(&number, &err));
}
BENCHMARK_TEMPLATE(call_of_a_plugin, false);
BENCHMARK_TEMPLATE(call_of_a_plugin, true);

/// Two streams that wait for each other in turn: the time of one event from record to the other stream's work.
void hop(benchmark::State& state) {
  cpu::Stream first("first", 1), second("second", 1);
  cpu::Event to_second, to_first;
  constexpr int kNumHops = 200;
  for (auto _ : state) {
    for (int i = 0; i < kNumHops; i += 2) {
      first.wait(to_first);
      first.record(to_second);
      second.wait(to_second);
      second.record(to_first);
    }
    second.synchronize(kTimeoutMs);
  }
  state.SetItemsProcessed(state.iterations() * kNumHops);
}
BENCHMARK(hop)->UseRealTime();

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();
