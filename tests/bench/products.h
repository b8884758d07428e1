// What limits a step of GPT-2 in float32: its matrix products with nothing between them, and the memory that an update
// reads and writes.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "cpu-device/kernels/loss/lm_head.h"
#include "cpu-device/kernels/matmul.h"
#include "model/gpt2/gpt2_config.h"

namespace tessera::testing {

/// Linear layers and the head, by oneDNN's sgemm with one thread, in memory as large as a step's: weights, their
/// gradients and activations of all layers. Attention's products are not among them.
class Products {
 public:
  Products(const host::Gpt2Config& model, uint64_t tokens)
      : Products({static_cast<uint64_t>(model.num_layers), static_cast<uint64_t>(model.embed),
                  static_cast<uint64_t>(model.vocab), tokens}) {}

  /// Milliseconds of one step's products.
  double run_ms() {
    return ms_of([this] {
      for (uint64_t layer = 0; layer < sizes_.layers; ++layer)
        each_linear(layer, &Products::forward);
      head();
      for (uint64_t layer = sizes_.layers; layer-- > 0;)
        each_linear(layer, &Products::backward);
    });
  }

  /// Milliseconds that one thread takes for the memory of an update, with next to no arithmetic: gradients are read
  /// once for their norm and once for AdamW, which reads and writes values and two moments.
  double update_ms() {
    first_moments_.resize(weights_.size()), second_moments_.resize(weights_.size());
    return ms_of([this] {
      uint32_t bits = 0;  // of integers, which are added in any order
      for (const float g : gradients_)
        bits += std::bit_cast<uint32_t>(g);
      const auto norm = static_cast<float>(bits);
      for (uint64_t i = 0; i < weights_.size(); ++i) {
        first_moments_[i] += gradients_[i];
        second_moments_[i] += norm;
        weights_[i] += first_moments_[i] - second_moments_[i];
      }
    });
  }

 private:
  struct Sizes {
    uint64_t layers, width, vocabulary, tokens;
  };

  explicit Products(const Sizes& sizes)
      : sizes_(sizes),
        weights_(sizes.layers * 12 * sizes.width * sizes.width + sizes.vocabulary * sizes.width, 0.01f),
        gradients_(weights_.size(), 0.01f),
        in_(sizes.layers * sizes.tokens * 4 * sizes.width, 0.01f),
        out_(in_.size(), 0.01f),
        logit_rows_(cpu::loss_chunk_length(sizes.tokens, sizes.vocabulary)),
        logits_(logit_rows_ * sizes.vocabulary, 0.01f) {}

  static double ms_of(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

  using Linear = void (Products::*)(uint64_t weight, uint64_t at, uint64_t in, uint64_t out);

  void each_linear(uint64_t layer, Linear product) {
    const uint64_t c = sizes_.width, first = layer * 12 * c * c, at = layer * sizes_.tokens * 4 * c;
    (this->*product)(first, at, c, 3 * c);
    (this->*product)(first + 3 * c * c, at, c, c);
    (this->*product)(first + 4 * c * c, at, c, 4 * c);
    (this->*product)(first + 8 * c * c, at, 4 * c, c);
  }

  void forward(uint64_t weight, uint64_t at, uint64_t in, uint64_t out) {
    cpu::matmul({sizes_.tokens, out, in}, {&in_[at], in}, {&weights_[weight], out}, {&out_[at], out}, false, 1);
  }

  void backward(uint64_t weight, uint64_t at, uint64_t in, uint64_t out) {
    cpu::matmul({sizes_.tokens, in, out}, {&out_[at], out}, {&weights_[weight], out, true}, {&in_[at], in}, false, 1);
    cpu::matmul({in, out, sizes_.tokens}, {&in_[at], in, true}, {&out_[at], out}, {&gradients_[weight], out}, false, 1);
  }

  void head() {
    const uint64_t c = sizes_.width, v = sizes_.vocabulary, table = sizes_.layers * 12 * c * c;
    for (uint64_t done = 0; done < sizes_.tokens; done += logit_rows_) {
      const uint64_t rows = std::min(logit_rows_, sizes_.tokens - done);
      const float* x = &in_[done * c];
      cpu::matmul({rows, v, c}, {x, c}, {&weights_[table], c, true}, {logits_.data(), v}, false, 1);
      cpu::matmul({rows, c, v}, {logits_.data(), v}, {&weights_[table], c}, {&out_[done * c], c}, false, 1);
      cpu::matmul({v, c, rows}, {logits_.data(), v, true}, {x, c}, {&gradients_[table], c}, done > 0, 1);
    }
  }

  const Sizes sizes_;
  std::vector<float> weights_, gradients_, in_, out_, first_moments_, second_moments_;
  const uint64_t logit_rows_;  // that the CPU device computes at once
  std::vector<float> logits_;
};

}  // namespace tessera::testing
