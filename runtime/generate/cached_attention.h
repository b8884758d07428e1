// Attention of one new token to all before it.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::host {

/// Keys and values of the tokens so far, of one attention: [num_tokens, width] each, width = heads * head_dim.
class KeyValueCache {
 public:
  KeyValueCache(int64_t context, int64_t num_heads, int64_t head_dim)
      : num_heads_(static_cast<size_t>(num_heads)),
        head_dim_(static_cast<size_t>(head_dim)),
        keys_(static_cast<size_t>(context) * width()),
        values_(keys_.size()) {}

  size_t width() const { return num_heads_ * head_dim_; }

  /// Takes keys and values of `num_rows` rows q | k | v as those of the tokens from `position` on.
  void store(const float* qkv, int64_t num_rows, int64_t position);
  /// Stores the row q | k | v at `position`; out = softmax attention of its queries to the tokens 0, ..., position.
  /// [width]
  void attend(const float* qkv, int64_t position, float* out);

 private:
  void attend_head(const float* query, size_t head, size_t num_tokens, float* out);

  size_t num_heads_, head_dim_;
  std::vector<float> keys_, values_;
  std::vector<float> scores_;  // of one head
};

}  // namespace tessera::host
