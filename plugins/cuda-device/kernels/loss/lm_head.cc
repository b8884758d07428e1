// The vocabulary of GPT-2, 50257, is what makes this file longer than three products: tensor cores want rows that start
// at multiples of 16 bytes. So stored logits have 50304 columns, made from a copy of the table with zero rows after the
// last; the gradient of the table cannot be padded, as it is the parameter's own buffer: the product makes its first
// 50256 rows, and multiply_last_columns the last one (docs/decisions/0017). Chunks are cut by the extents alone.
#include "cuda-device/kernels/loss/lm_head.h"

#include <algorithm>

#include "cuda-device/cuda_error.h"
#include "cuda-device/kernels/column_parts.h"
#include "tessera/ranges.hpp"

namespace tessera::cuda {
namespace {

constexpr uint32_t kLogits = 0, kTable = 1, kLastParts = 2, kMatmul = 3;  // workspaces

constexpr uint64_t kRowGranule = 128;

// Chunks of nearly equal lengths, so that none is left with few rows.
uint64_t chunk_length(uint64_t rows, uint64_t row_bytes, int64_t part_bytes) {
  const uint64_t fitting = std::max<uint64_t>(1, static_cast<uint64_t>(part_bytes) / row_bytes);
  const uint64_t num_chunks = divide_up(rows, fitting);
  return std::min(rows, round_up(divide_up(rows, num_chunks), kRowGranule));
}

bool reads_table(const HeadProducts& products) {
  return products.logits || products.input_gradient;
}
bool has_last_parts(const HeadShape& shape, const HeadProducts& products) {
  return products.table_gradient && shape.num_last_rows() > 0;
}

void* offset(void* pointer, uint64_t num_elements, tsr_dtype dtype) {
  return static_cast<std::byte*>(pointer) + TSR_NUM_BYTES(dtype, num_elements);
}

}  // namespace

HeadShape::HeadShape(const tsr_op& op, int64_t part_bytes)
    : rows(op::num_rows(op)),
      columns(op::extent(op, TSR_DIM_EMBED)),
      vocabulary(op::extent(op, TSR_DIM_VOCAB)),
      dtype(op.dtype),
      stores_logits(op.kind == TSR_OP_LOSS || dtype != TSR_F32),
      width(stores_logits && vocabulary % 8 != 0 ? round_up<uint64_t>(vocabulary, 128) : vocabulary),
      chunk(stores_logits ? chunk_length(rows, TSR_NUM_BYTES(dtype, width), part_bytes) : rows) {}

// Workspaces, of GPT-2 at 64 x 1024 tokens in bf16: logits [chunk, 50304] up to 512 MiB; the padded table [50304, 768],
// 74 MiB; parts of the last row of the table's gradient; 32 MiB for cuBLASLt.
void append_head_workspaces(const HeadShape& shape, const HeadProducts& products, op::SlotList& slots) {
  if (shape.stores_logits) slots.push_back(aligned_workspace(kLogits, shape.chunk * shape.width, shape.dtype));
  if (reads_table(products) && shape.is_padded())
    slots.push_back(aligned_workspace(kTable, shape.width * shape.columns, shape.dtype));
  if (has_last_parts(shape, products))
    slots.push_back(op::workspace(kLastParts, shape.num_last_rows() * num_parts(shape.chunk) * shape.columns, TSR_F32));
  slots.push_back(matmul_workspace(kMatmul));
}

Head::Plans::Plans(const HeadShape& shape, const HeadProducts& products, uint64_t num_rows, Context& context) {
  const uint64_t columns = shape.columns, width = shape.width;
  const auto product = [&](uint64_t m, uint64_t n, uint64_t k, Factor a, Factor b, uint64_t out_stride,
                           tsr_dtype out_dtype) {
    return Product{
        .m = m, .n = n, .k = k, .a = a, .b = b, .out_stride = out_stride, .dtype = shape.dtype, .out_dtype = out_dtype};
  };
  if (products.logits)
    logits.emplace(product(num_rows, width, columns, {columns}, {columns, true}, width, shape.dtype), context);
  if (products.input_gradient)
    input_gradient.emplace(product(num_rows, columns, width, {width}, {columns}, columns, shape.dtype), context);
  if (products.table_gradient && shape.num_main_rows() > 0)
    table_gradient.emplace(
        product(shape.num_main_rows(), columns, num_rows, {width, true}, {columns}, columns, TSR_F32), context);
}

Head::Head(const HeadShape& shape, const HeadProducts& products, std::span<const tsr_slot_spec> slots, Context& context)
    : shape_(shape),
      logits_(op::find_operand(slots, TSR_ROLE_WORKSPACE, kLogits)),
      table_(op::find_operand(slots, TSR_ROLE_WORKSPACE, kTable)),
      last_parts_(op::find_operand(slots, TSR_ROLE_WORKSPACE, kLastParts)),
      workspace_(op::find_operand(slots, TSR_ROLE_WORKSPACE, kMatmul)),
      whole_(shape, products, shape.chunk, context) {
  if (const uint64_t rest = shape.rows % shape.chunk; rest > 0) last_.emplace(shape, products, rest, context);
}

// The copy of the table is made at every launch: a parameter changes between steps, and the kernel is not told when.
Head::Launch Head::begin(cudaStream_t stream, void* const* pointers, const void* table) const {
  Launch launch{.stream = stream,
                .logits = align_up(logits_.in<void>(pointers)),
                .table = table,
                .last_parts = last_parts_.in(pointers),
                .workspace = workspace_.in<void>(pointers)};
  if (!table_.is_bound()) return launch;
  void* const copy = align_up(table_.in<void>(pointers));
  const uint64_t num_elements = shape_.vocabulary * shape_.columns;
  const uint64_t num_bytes = TSR_NUM_BYTES(shape_.dtype, num_elements);
  check(cudaMemcpyAsync(copy, table, num_bytes, cudaMemcpyDeviceToDevice, stream), "copying the table of the head");
  check(cudaMemsetAsync(offset(copy, num_elements, shape_.dtype), 0,
                        (shape_.width - shape_.vocabulary) * shape_.columns * TSR_NUM_BYTES(shape_.dtype, 1), stream),
        "zeroing the padding of the head's table");
  launch.table = copy;
  return launch;
}

void Head::logits(const Launch& launch, uint64_t num_rows, const void* x) const {
  plans(num_rows).logits->launch(launch.stream,
                                 {.a = x, .b = launch.table, .out = launch.logits, .workspace = launch.workspace});
}

void Head::input_gradient(const Launch& launch, uint64_t num_rows, bool accumulates, void* dx) const {
  plans(num_rows).input_gradient->launch(
      launch.stream,
      {.a = launch.logits, .b = launch.table, .out = dx, .workspace = launch.workspace, .accumulates = accumulates});
}

void Head::table_gradient(const Launch& launch, uint64_t num_rows, const void* x, bool accumulates,
                          float* dtable) const {
  if (const auto& product = plans(num_rows).table_gradient)
    product->launch(
        launch.stream,
        {.a = launch.logits, .b = x, .out = dtable, .workspace = launch.workspace, .accumulates = accumulates});
  if (shape_.num_last_rows() == 0) return;
  multiply_last_columns(launch.stream, shape_.dtype, num_rows, shape_.columns, x,
                        offset(launch.logits, shape_.num_main_rows(), shape_.dtype), shape_.width,
                        shape_.num_last_rows(), launch.last_parts);
  for (uint64_t j = 0; j < shape_.num_last_rows(); ++j)
    add_parts(launch.stream, launch.last_parts + j * num_parts(num_rows) * shape_.columns, num_parts(num_rows),
              shape_.columns, {{dtable + (shape_.num_main_rows() + j) * shape_.columns, accumulates}});
}

}  // namespace tessera::cuda
