// COPY, CAST, ADD_INTO, SCALE and ZERO: which loop a dtype needs, and the team that runs it. All are bound by memory:
// one core of a server does not fill its channels, so they are cut over the team from kGrain elements on. Element i of
// the result depends on element i alone, so neither the cut nor the instruction set changes a bit.
#include "cpu-device/kernels/elementwise/elementwise.h"

#include <cstring>

#include "cpu-device/kernels/op_table.h"
#include "cpu-device/kernels/parallel.h"
#include "tessera/error.hpp"
#include "tessera/op_slots.hpp"

namespace tessera::cpu {
namespace {

constexpr uint32_t kSource = TSR_SLOT(TSR_ROLE_SOURCE, 0);
constexpr uint32_t kDestination = TSR_SLOT(TSR_ROLE_DESTINATION, 0);
constexpr uint64_t kGrain = 16384;  // elements that are worth another thread

ElementLoop cast_function(tsr_dtype from, tsr_dtype to) {
  if (from == TSR_F32 && to == TSR_BF16) return TESSERA_SIMD_CHOOSE(cast_f32_bf16);
  if (from == TSR_BF16 && to == TSR_F32) return TESSERA_SIMD_CHOOSE(cast_bf16_f32);
  if (from == TSR_F32 && to == TSR_F16) return TESSERA_SIMD_CHOOSE(cast_f32_f16);
  if (from == TSR_F16 && to == TSR_F32) return TESSERA_SIMD_CHOOSE(cast_f16_f32);
  if (from == TSR_F32 && to == TSR_F64) return TESSERA_SIMD_CHOOSE(cast_f32_f64);
  if (from == TSR_F64 && to == TSR_F32) return TESSERA_SIMD_CHOOSE(cast_f64_f32);
  throw Error(TSR_E_UNSUPPORTED, "cast from " + op::dtype_name(from) + " to " + op::dtype_name(to) +
                                     " is not computed here; one side must be float32, the other bfloat16, float16 or "
                                     "float64");
}

ElementLoop add_function(tsr_dtype dtype) {
  if (dtype == TSR_F32) return TESSERA_SIMD_CHOOSE(add_f32);
  if (dtype == TSR_F64) return TESSERA_SIMD_CHOOSE(add_f64);
  if (dtype == TSR_I64) return TESSERA_SIMD_CHOOSE(add_i64);
  if (dtype == TSR_BF16) return TESSERA_SIMD_CHOOSE(add_bf16);
  if (dtype == TSR_F16) return TESSERA_SIMD_CHOOSE(add_f16);
  throw Error(TSR_E_UNSUPPORTED, "add of " + op::dtype_name(dtype) +
                                     " is not computed here; float32, bfloat16, float16, float64 and int64 are");
}

ScaleLoop scale_loop(tsr_dtype dtype) {
  if (dtype == TSR_F32) return TESSERA_SIMD_CHOOSE(scale_f32);
  if (dtype == TSR_F64) return TESSERA_SIMD_CHOOSE(scale_f64);
  if (dtype == TSR_BF16) return TESSERA_SIMD_CHOOSE(scale_bf16);
  if (dtype == TSR_F16) return TESSERA_SIMD_CHOOSE(scale_f16);
  throw Error(TSR_E_UNSUPPORTED, "scale of " + op::dtype_name(dtype) +
                                     " is not computed here; float32, bfloat16, float16 and float64 are");
}

uint64_t element_bytes(tsr_dtype dtype) {
  const uint64_t num_bytes = TSR_NUM_BYTES(dtype, 1);
  if (num_bytes == 0) throw Error(TSR_E_UNSUPPORTED, op::dtype_name(dtype) + " has no whole bytes");
  return num_bytes;
}

/// COPY, CAST and ADD_INTO: a loop over two operands. An ADD_INTO that the host has turned into the first write of its
/// target is a copy.
struct TwoOperands final : Kernel {
  SizedLoop loop;
  size_t dst, src;  // positions in the slots
  uint64_t num_elements;
  int num_threads;

  void run(void* const* pointers) override { run_loop(loop, pointers[dst], pointers[src], num_elements, num_threads); }
};

struct Scale final : Kernel {
  ScaleLoop loop;
  double factor;
  uint64_t num_elements, num_bytes;  // of one element
  int num_threads;

  void run(void* const* pointers) override {
    auto* values = static_cast<char*>(pointers[0]);
    parallel_for(num_threads, num_elements, kGrain,
                 [&](uint64_t begin, uint64_t end, int) { loop(values + begin * num_bytes, factor, end - begin); });
  }
};

/// One action may zero many pads, each a few hundred bytes: too little for a team.
struct Zero final : Kernel {
  std::vector<uint64_t> num_bytes;  // of each operand

  void run(void* const* pointers) override {
    for (size_t i = 0; i < num_bytes.size(); ++i)
      std::memset(pointers[i], 0, num_bytes[i]);
  }
};

/// In describe already, so that a plan refuses what a run would.
void check_dtypes(const tsr_op& op) {
  element_bytes(op.dtype);
  if (op.kind == TSR_OP_CAST) cast_function(op.dtype, op.destination_dtype);
  if (op.kind == TSR_OP_ADD_INTO) add_function(op.dtype);
  if (op.kind == TSR_OP_SCALE) scale_loop(op.dtype);
}

op::SlotList describe(const tsr_op& op) {
  check_dtypes(op);
  return op::elementwise_slots(op);
}

std::unique_ptr<Kernel> prepare_zero(const tsr_op&, std::span<const tsr_slot_spec> slots, int) {
  auto kernel = std::make_unique<Zero>();
  for (const tsr_slot_spec& slot : slots) {
    if (TSR_SLOT_ROLE(slot.slot) != TSR_ROLE_DESTINATION || slot.mode != TSR_MODE_WRITE)
      throw Error(TSR_E_INVALID_ARGUMENT, "prepare: zero writes destinations only, not slot " +
                                              op::slot_name(slot.slot) + " with mode " + op::mode_name(slot.mode));
    kernel->num_bytes.push_back(slot.num_elements * element_bytes(slot.dtype));
  }
  return kernel;
}

std::unique_ptr<Kernel> prepare_scale(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads) {
  op::refuse_write(slots, kDestination);
  auto kernel = std::make_unique<Scale>();
  kernel->loop = scale_loop(op.dtype);
  kernel->factor = op.attributes[TSR_ATTR_SCALE];
  kernel->num_elements = slots[0].num_elements;
  kernel->num_bytes = element_bytes(op.dtype);
  kernel->num_threads = num_threads;
  return kernel;
}

std::unique_ptr<Kernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads) {
  auto kernel = std::make_unique<TwoOperands>();
  kernel->dst = static_cast<size_t>(op::slot_index(slots, kDestination));
  kernel->src = static_cast<size_t>(op::slot_index(slots, kSource));
  const bool adds = op.kind == TSR_OP_ADD_INTO && slots[kernel->dst].mode == TSR_MODE_ADD;
  kernel->loop = op.kind == TSR_OP_CAST ? cast_loop(op.dtype, op.destination_dtype)
                                        : SizedLoop{adds ? add_function(op.dtype) : nullptr, element_bytes(op.dtype),
                                                    element_bytes(op.dtype)};
  kernel->num_elements = slots[kernel->dst].num_elements;
  kernel->num_threads = num_threads;
  return kernel;
}

}  // namespace

SizedLoop cast_loop(tsr_dtype from, tsr_dtype to) {
  return {cast_function(from, to), element_bytes(to), element_bytes(from)};
}

void run_loop(const SizedLoop& loop, void* dst, const void* src, uint64_t num_elements, int num_threads) {
  auto* to = static_cast<char*>(dst);
  const auto* from = static_cast<const char*>(src);
  parallel_for(num_threads, num_elements, kGrain, [&](uint64_t begin, uint64_t end, int) {
    if (loop.loop)
      loop.loop(to + begin * loop.dst_bytes, from + begin * loop.src_bytes, end - begin);
    else
      std::memcpy(to + begin * loop.dst_bytes, from + begin * loop.src_bytes, (end - begin) * loop.dst_bytes);
  });
}

const OpImpl kElementwise{describe, prepare};
const OpImpl kScale{describe, prepare_scale};
const OpImpl kZero{describe, prepare_zero};

}  // namespace tessera::cpu
