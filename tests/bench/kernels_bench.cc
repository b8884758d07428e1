// The ops of a GPT-2 124M step at B = 1, T = 256, with the threads of --threads=N (default 1), on values of
// --dtype=float32 (default), bf16 or fp16.
// FLOP/s counts the matrix products' operations alone, each token's once a product: 2 m n k.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cpu-device/kernels/ops.h"
#include "tessera/half.hpp"

namespace {

constexpr int64_t kTokens = 256, kEmbed = 768, kHeads = 12, kVocabulary = 50257, kPositions = 1024;

const std::map<std::string, tsr_dtype> kDtypes{{"float32", TSR_F32}, {"bf16", TSR_BF16}, {"fp16", TSR_F16}};
tsr_dtype dtype = TSR_F32;  // of values

tsr_op op_of(uint32_t kind, uint32_t phase, int64_t seq) {
  tsr_op op{};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.phase = phase;
  op.dtype = dtype;
  op.gradient_dtype = TSR_F32;
  op.dims[TSR_DIM_BATCH] = 1;
  op.dims[TSR_DIM_SEQ] = seq;
  op.dims[TSR_DIM_HEADS] = kHeads;
  op.dims[TSR_DIM_HEAD_DIM] = kEmbed / kHeads;
  op.dims[TSR_DIM_EMBED] = kEmbed;
  op.dims[TSR_DIM_VOCAB] = kVocabulary;
  op.dims[TSR_DIM_POSITIONS] = kPositions;
  op.attributes[TSR_ATTR_EPSILON] = 1e-5;
  op.attributes[TSR_ATTR_VOCAB_COUNT] = op.attributes[TSR_ATTR_VOCAB_TOTAL] = kVocabulary;
  op.attributes[TSR_ATTR_SCALE] = 1.0 / static_cast<double>(seq);
  return op;
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

// Small values, and tokens all over the vocabulary.
Memory filled(const tsr_slot_spec& slot) {
  const size_t num_bytes = TSR_NUM_BYTES(slot.dtype, slot.num_elements);
  Memory memory(std::aligned_alloc(4096, (num_bytes + 4095) / 4096 * 4096));
  std::memset(memory.get(), 0, num_bytes);
  std::minstd_rand generator(slot.slot);
  if (slot.dtype == TSR_I32)
    for (uint64_t i = 0; i < slot.num_elements; ++i)
      static_cast<int32_t*>(memory.get())[i] = static_cast<int32_t>(generator() % kVocabulary);
  const auto value = [&] { return static_cast<float>(generator() % 2001) * 1e-3f - 1.0f; };
  for (uint64_t i = 0; i < slot.num_elements; ++i) {
    if (slot.dtype == TSR_F32) static_cast<float*>(memory.get())[i] = value();
    if (slot.dtype == TSR_BF16) static_cast<uint16_t*>(memory.get())[i] = tessera::float_to_bf16(value());
    if (slot.dtype == TSR_F16) static_cast<uint16_t*>(memory.get())[i] = tessera::float_to_f16(value());
    if (slot.dtype == TSR_F64) static_cast<double*>(memory.get())[i] = 1;   // the loss scale, what clip leaves
    if (slot.dtype == TSR_I64) static_cast<int64_t*>(memory.get())[i] = 1;  // the step count
  }
  return memory;
}

void run(benchmark::State& state, const tsr_op& op, double flop, int num_threads) {
  const auto slots = tessera::cpu::describe_op(op);
  std::vector<Memory> operands;
  std::vector<void*> pointers;
  for (const tsr_slot_spec& slot : slots) {
    operands.push_back(filled(slot));
    pointers.push_back(operands.back().get());
  }
  const auto kernel = tessera::cpu::prepare_op(op, slots, num_threads);
  for (auto _ : state)
    kernel->run(pointers.data());
  if (flop > 0) state.counters["FLOP/s"] = benchmark::Counter(flop, benchmark::Counter::kIsIterationInvariantRate);
}

void add(const std::string& name, const tsr_op& op, double flop, int num_threads) {
  auto* bench =
      benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { run(state, op, flop, num_threads); });
  bench->Unit(benchmark::kMicrosecond);
  if (num_threads > 1) bench->UseRealTime();  // one thread: its own processor time, whatever else the machine does
}

struct Phase {
  uint32_t phase;
  const char* name;
};
constexpr Phase kPhases[] = {{TSR_PHASE_FORWARD, "forward"},
                             {TSR_PHASE_BACKWARD_INPUT, "backward_input"},
                             {TSR_PHASE_BACKWARD_WEIGHT, "backward_weight"}};

void add_linear(const std::string& name, int64_t in, int64_t out, int activation, bool has_bias, int num_threads) {
  for (const Phase& phase : kPhases) {
    tsr_op op = op_of(TSR_OP_LINEAR, phase.phase, kTokens);
    op.dims[TSR_DIM_IN] = in;
    op.dims[TSR_DIM_OUT] = out;
    op.attributes[TSR_ATTR_ACTIVATION] = activation;
    op.attributes[TSR_ATTR_HAS_BIAS] = has_bias ? 1 : 0;
    add(name + "/" + phase.name, op, 2.0 * static_cast<double>(kTokens * in * out), num_threads);
  }
}

// The loss over a vocabulary, in one op and in the three of a split one.
void add_losses(int num_threads) {
  const double logits = 2.0 * static_cast<double>(kTokens * kEmbed * kVocabulary);
  add("loss/forward", op_of(TSR_OP_LOSS, TSR_PHASE_FORWARD, kTokens), logits, num_threads);
  add("loss/backward", op_of(TSR_OP_LOSS, TSR_PHASE_BACKWARD, kTokens), 3 * logits, num_threads);
  add("head_logits/forward", op_of(TSR_OP_HEAD_LOGITS, TSR_PHASE_FORWARD, kTokens), logits, num_threads);
  add("head_logits/backward", op_of(TSR_OP_HEAD_LOGITS, TSR_PHASE_BACKWARD, kTokens), 2 * logits, num_threads);
  tsr_op stats = op_of(TSR_OP_SOFTMAX_STATS, TSR_PHASE_FORWARD, kTokens);
  tsr_op gradient = op_of(TSR_OP_LOSS_GRAD, TSR_PHASE_BACKWARD, kTokens);
  stats.dtype = gradient.dtype = TSR_F32;
  add("softmax_stats/forward", stats, 0, num_threads);
  add("loss_grad/backward", gradient, 0, num_threads);
}

void add_all(int num_threads) {
  add_linear("qkv", kEmbed, 3 * kEmbed, TSR_ACTIVATION_NONE, true, num_threads);
  add_linear("proj", kEmbed, kEmbed, TSR_ACTIVATION_NONE, false, num_threads);
  add_linear("fc_gelu", kEmbed, 4 * kEmbed, TSR_ACTIVATION_GELU_TANH, true, num_threads);
  add_linear("fc_proj", 4 * kEmbed, kEmbed, TSR_ACTIVATION_NONE, false, num_threads);
  for (const int64_t seq : {int64_t{256}, int64_t{1024}}) {
    const std::string name = "attention/T=" + std::to_string(seq);
    const double product = static_cast<double>(seq * (seq + 1) * kEmbed);  // causal: half of 2 T T C
    add(name + "/forward", op_of(TSR_OP_ATTENTION, TSR_PHASE_FORWARD, seq), 2 * product, num_threads);
    add(name + "/backward", op_of(TSR_OP_ATTENTION, TSR_PHASE_BACKWARD, seq), 5 * product, num_threads);
  }
  add_losses(num_threads);
  const std::map<std::string, uint32_t> others{{"layer_norm", TSR_OP_LAYER_NORM},
                                               {"add_layer_norm", TSR_OP_ADD_LAYER_NORM},
                                               {"add", TSR_OP_ADD},
                                               {"token_embedding", TSR_OP_TOKEN_EMBEDDING},
                                               {"position_embedding", TSR_OP_POSITION_EMBEDDING}};
  for (const auto& [name, kind] : others) {
    add(name + "/forward", op_of(kind, TSR_PHASE_FORWARD, kTokens), 0, num_threads);
    add(name + "/backward", op_of(kind, TSR_PHASE_BACKWARD, kTokens), 0, num_threads);
  }
}

// Of the token embedding, which no cache holds.
void add_step_ops(int num_threads) {
  static constexpr tsr_op_range kAll{0, kVocabulary * kEmbed, 0.1, 1};
  for (const auto& [name, kind] : {std::pair{"sum_squares", TSR_OP_SUM_SQUARES}, {"adamw", TSR_OP_ADAMW}}) {
    tsr_op op{};
    op.struct_size = sizeof op;
    op.kind = static_cast<uint32_t>(kind);
    op.dtype = op.gradient_dtype = TSR_F32;
    op.dims[TSR_DIM_ELEMENTS] = kVocabulary * kEmbed;
    op.ranges = &kAll;
    op.num_ranges = 1;
    add(name, op, 0, num_threads);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int num_threads = 1, num_kept = 1;
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], "--threads=", 10) == 0)
      num_threads = std::atoi(argv[i] + 10);
    else if (std::strncmp(argv[i], "--dtype=", 8) == 0 && kDtypes.count(argv[i] + 8))
      dtype = kDtypes.at(argv[i] + 8);
    else
      argv[num_kept++] = argv[i];
  if (num_threads < 1) {
    std::fprintf(stderr, "--threads must be at least 1\n");
    return 2;
  }
  benchmark::Initialize(&num_kept, argv);
  if (benchmark::ReportUnrecognizedArguments(num_kept, argv)) return 2;
  add_all(num_threads);
  add_step_ops(num_threads);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
