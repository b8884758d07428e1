// The matrix products of a training step of GPT-2 with nothing between them: what limits a step in float32.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "cpu-device/kernels/matmul.h"

namespace tessera::testing {

/// Linear layers and the head, by oneDNN's sgemm with one thread, in memory as large as a step's: weights and their
/// gradients of all layers, activations of one layer. Attention's products are not among them.
class Products {
 public:
  struct Sizes {
    uint64_t layers, width, vocabulary, tokens;
  };

  explicit Products(const Sizes& sizes)
      : sizes_(sizes),
        weights_(sizes.layers * 12 * sizes.width * sizes.width + sizes.vocabulary * sizes.width, 0.01f),
        gradients_(weights_.size(), 0.01f),
        in_(sizes.tokens * 4 * sizes.width, 0.01f),
        out_(in_.size(), 0.01f),
        logits_(std::min(sizes.tokens, kLogitRows) * sizes.vocabulary, 0.01f) {}

  /// Milliseconds of one step's products.
  double run_ms() {
    const auto start = std::chrono::steady_clock::now();
    for (uint64_t layer = 0; layer < sizes_.layers; ++layer)
      each_linear(layer, &Products::forward);
    head();
    for (uint64_t layer = sizes_.layers; layer-- > 0;)
      each_linear(layer, &Products::backward);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  /// Rows of logits that the CPU device computes at once: 64 MiB for GPT-2's vocabulary.
  static constexpr uint64_t kLogitRows = 320;

  using Linear = void (Products::*)(uint64_t offset, uint64_t in, uint64_t out);

  void each_linear(uint64_t layer, Linear product) {
    const uint64_t c = sizes_.width, first = layer * 12 * c * c;
    (this->*product)(first, c, 3 * c);
    (this->*product)(first + 3 * c * c, c, c);
    (this->*product)(first + 4 * c * c, c, 4 * c);
    (this->*product)(first + 8 * c * c, 4 * c, c);
  }

  void forward(uint64_t offset, uint64_t in, uint64_t out) {
    cpu::matmul({sizes_.tokens, out, in}, {in_.data(), in}, {&weights_[offset], out}, {out_.data(), out}, false, 1);
  }

  void backward(uint64_t offset, uint64_t in, uint64_t out) {
    cpu::matmul({sizes_.tokens, in, out}, {out_.data(), out}, {&weights_[offset], out, true}, {in_.data(), in}, false,
                1);
    cpu::matmul({in, out, sizes_.tokens}, {in_.data(), in, true}, {out_.data(), out}, {&gradients_[offset], out}, false,
                1);
  }

  void head() {
    const uint64_t c = sizes_.width, v = sizes_.vocabulary, table = sizes_.layers * 12 * c * c;
    for (uint64_t done = 0; done < sizes_.tokens; done += kLogitRows) {
      const uint64_t rows = std::min(kLogitRows, sizes_.tokens - done);
      const float* x = &in_[done * c];
      cpu::matmul({rows, v, c}, {x, c}, {&weights_[table], c, true}, {logits_.data(), v}, false, 1);
      cpu::matmul({rows, c, v}, {logits_.data(), v}, {&weights_[table], c}, {&out_[done * c], c}, false, 1);
      cpu::matmul({v, c, rows}, {logits_.data(), v, true}, {x, c}, {&gradients_[table], c}, done > 0, 1);
    }
  }

  const Sizes sizes_;
  std::vector<float> weights_, gradients_, in_, out_, logits_;
};

}  // namespace tessera::testing
