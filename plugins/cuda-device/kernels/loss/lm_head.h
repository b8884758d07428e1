// The products of the language model's head, logits[N,V] = x[N,C] table[V,C]^T and their gradients, on chunks of rows:
// one chunk's logits are all that is ever stored.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <span>

#include "cuda-device/context.h"
#include "cuda-device/kernels/matmul.h"
#include "tessera/operands.hpp"

namespace tessera::cuda {

/// Extents of an op of the head. Stored logits have rows of `width` >= V: V itself, or where that is not a multiple of
/// 8 the next multiple of 128, since products of other extents are slow; they are then made from a copy of the table
/// with zero rows at its end. The float32 gradient that HEAD_LOGITS is given is not stored again but used in place.
struct HeadShape {
  /// Chunks have at most `part_bytes` of logits, but for a few rows.
  explicit HeadShape(const tsr_op& op, int64_t part_bytes = kMaxPartBytes);

  bool is_padded() const { return width != vocabulary; }
  /// Rows of the table that whole vectors of logits cover, and those after them: less than 8.
  uint64_t num_main_rows() const { return vocabulary / 8 * 8; }
  uint64_t num_last_rows() const { return vocabulary % 8; }

  uint64_t rows, columns, vocabulary;  // N, C, V
  tsr_dtype dtype;
  bool stores_logits;
  uint64_t width;
  uint64_t chunk;  // rows of every chunk but the last, which may have fewer; from the extents alone
};

/// Which products an op has.
struct HeadProducts {
  bool logits, input_gradient, table_gradient;
};

/// Appends the workspaces of the products that are asked for.
void append_head_workspaces(const HeadShape& shape, const HeadProducts& products, op::SlotList& slots);

/// The head in the launches of an op. [issue-thread]
class Head {
 public:
  /// [control-thread]
  Head(const HeadShape& shape, const HeadProducts& products, std::span<const tsr_slot_spec> slots, Context& context);

  /// Where a launch has what its chunks share.
  struct Launch {
    cudaStream_t stream;
    void* logits;       // [chunk, width], or their gradient: the op's to fill, or to replace where they are not stored
    const void* table;  // [width, C]; null if no product reads it
    float* last_parts;
    void* workspace;
  };
  /// Enqueues the copy of the table, if there is one.
  Launch begin(cudaStream_t stream, void* const* pointers, const void* table) const;

  /// logits = x table^T, for num_rows <= chunk rows of x.
  void logits(const Launch& launch, uint64_t num_rows, const void* x) const;
  /// dx (+)= dlogits table, with the gradient in the place of logits.
  void input_gradient(const Launch& launch, uint64_t num_rows, bool accumulates, void* dx) const;
  /// dtable[V,C] (+)= dlogits^T x.
  void table_gradient(const Launch& launch, uint64_t num_rows, const void* x, bool accumulates, float* dtable) const;

 private:
  /// For chunks of one length.
  struct Plans {
    Plans(const HeadShape& shape, const HeadProducts& products, uint64_t num_rows, Context& context);
    std::optional<Matmul> logits, input_gradient, table_gradient;
  };
  const Plans& plans(uint64_t num_rows) const { return num_rows == shape_.chunk ? whole_ : *last_; }

  const HeadShape shape_;
  const op::Operand logits_, table_, last_parts_, workspace_;
  const Plans whole_;
  std::optional<Plans> last_;
};

/// Enqueues: parts[j, num_parts(rows), C] of the sums over rows n of dlogits[n, j] x[n], for `num_columns` columns of
/// dlogits [rows, width], of `dtype`, from this address on.
void multiply_last_columns(cudaStream_t stream, tsr_dtype dtype, uint64_t rows, uint64_t columns, const void* x,
                           const void* dlogits, uint64_t width, uint64_t num_columns, float* parts);

}  // namespace tessera::cuda
