// The forward of a language model over some rows of one sequence, without loss.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "exec/device.h"
#include "exec/watch/arrivals.h"
#include "generate/cached_attention.h"
#include "model/architecture.h"

namespace tessera::host {

/// What forwards share. Borrows; `caches` has one for each attention, in the order of the model.
struct ForwardSetup {
  const Architecture& architecture;
  const Device& device;                      ///< that computes in host memory
  std::vector<std::vector<float>>& weights;  ///< by the model's parameters
  std::vector<KeyValueCache>& caches;
};

/// One kernel for each segment, for a fixed number of rows. [control-thread]
class Forward {
 public:
  enum class Rows {
    first,  ///< tokens 0, 1, ... of a sequence: attention among them, by the device
    next    ///< one token after those in the caches
  };

  /// Throws UNSUPPORTED, naming the segment, for a model with an op that needs rows which are not here.
  Forward(const ForwardSetup& setup, Rows rows, int64_t num_rows);

  /// Computes the tokens, of which the first is at `position`, and adds their keys and values to the caches. Returns
  /// the logits of the token after the last; they stay until the next run. [vocab]
  std::span<const float> run(std::span<const int32_t> tokens, int64_t position);

 private:
  /// Attention of rows::next, or what fills a cache from rows::first; run by the device in the order of its stream.
  struct CacheCall {
    KeyValueCache* cache;
    const float* qkv;
    float* out;  // null: only stores
    int64_t num_rows;
    const int64_t* position;
  };
  struct Launch {
    KernelHandle kernel;  // null: only `call`
    std::vector<void*> pointers;
    CacheCall* call = nullptr;         // after the kernel
    const float* positions = nullptr;  // of a position embedding: its table, whose row is pointers[0]
    size_t width = 0;                  // of that table
  };

  void add_segment(size_t index);
  void add_attention(const Segment& segment);
  void add_head(const Segment& segment);
  void add_kernel(const tsr_op& op, const std::vector<void*>& parameters, const std::vector<void*>& inputs,
                  const std::vector<void*>& outputs);
  float* allocate(uint64_t num_elements);
  void release_after(size_t segment);
  std::vector<void*> places(const std::vector<int>& values) const;

  const ForwardSetup setup_;
  const Rows rows_;
  const int64_t num_rows_;
  const Model model_;
  std::vector<int32_t> tokens_;
  int64_t position_ = 0;
  std::deque<std::vector<float>> buffers_;
  std::vector<std::vector<float>*> free_;
  std::vector<void*> place_;                 // by value
  std::vector<std::vector<float>*> buffer_;  // by value
  std::deque<CacheCall> calls_;
  std::vector<Launch> launches_;
  std::vector<float> logits_;
  size_t num_attentions_ = 0;
  uint64_t num_runs_ = 0;
  Arrivals ended_ = {.compares = false};  // at the end of each run
  StreamHandle stream_;
};

}  // namespace tessera::host
