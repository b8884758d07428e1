// A program of the size and shape of a real one, for tests of the memory planner.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "passes/dependencies.h"
#include "support/program_builder.h"

namespace tessera::testing {

struct Shape {
  int blocks = 12, micro_batches = 1, prefetch = 2, segments = 6;
  uint64_t parameters = 700000, activation = 300000;  // elements of a block, of a value
};

// What fsdp makes of a model: gathers ahead of use, each block's parameters gathered again for the backward, gradients
// reduced to a shard after it. Segments save what they need; the last ones' widths differ as those of attention and
// ffn.
class FsdpLike {
 public:
  FsdpLike(const Model& model, const Mesh& mesh, const Shape& shape)
      : shape_(shape), program_(empty_program(model, mesh)) {
    gather_ = program_.comm_stream(TSR_WORLD_AXIS, "gather");
    reduce_ = program_.comm_stream(TSR_WORLD_AXIS, "reduce");
    for (int b = 0; b < shape.blocks; ++b) {
      home_.push_back(persistent(program_, "h." + std::to_string(b), shape.parameters / 8));
      gradient_.push_back(transient(program_, "g." + std::to_string(b), shape.parameters / 8, TSR_BUFFER_GRADIENT));
    }
    for (int mb = 0; mb < shape.micro_batches; ++mb)
      micro_batch(mb);
    for (int b = 0; b < shape.blocks; ++b)
      add_action(program_, TSR_ACTION_OPTIMIZER, 0, {add(home_[b]), read(gradient_[b])});
    derive_dependencies(program_);
  }
  Program take() { return std::move(program_); }

 private:
  void micro_batch(int mb) {
    const int n = shape_.blocks;
    std::vector<uint64_t> gathered(2 * n);
    const auto gather = [&](int at) {
      if (at >= 2 * n) return;
      gathered[at] = transient(program_, "gathered", shape_.parameters, TSR_BUFFER_GATHERED);
      add_action(program_, TSR_ACTION_ALL_GATHER, gather_,
                 {read(home_[at < n ? at : 2 * n - 1 - at]), write(gathered[at])});
    };
    for (int at = 0; at < shape_.prefetch; ++at)
      gather(at);
    std::vector<std::vector<uint64_t>> saved(n);
    uint64_t x = value();
    add_action(program_, TSR_ACTION_FORWARD, 0, {write(x)});
    for (int b = 0; b < n; ++b) {
      gather(b + shape_.prefetch);
      x = forward(gathered[b], x, saved[b]);
    }
    uint64_t dx = value();
    add_action(program_, TSR_ACTION_LOSS, 0, {read(x), write(dx)});
    for (int b = n - 1; b >= 0; --b) {
      gather(2 * n - 1 - b + shape_.prefetch);
      dx = backward(gathered[2 * n - 1 - b], dx, saved[b], b, mb);
    }
  }

  uint64_t value(uint64_t width = 1) { return transient(program_, "x", width * shape_.activation); }

  uint64_t forward(uint64_t parameters, uint64_t x, std::vector<uint64_t>& saved) {
    for (int s = 0; s < shape_.segments; ++s) {
      const uint64_t y = value(s == 1 ? 3 : s == 4 ? 4 : 1), statistics = transient(program_, "s", 1000);
      add_action(program_, TSR_ACTION_FORWARD, 0, {read(parameters), read(x), write(y), write(statistics)});
      saved.insert(saved.end(), {x, statistics});
      x = y;
    }
    return x;
  }

  uint64_t backward(uint64_t parameters, uint64_t dx, std::vector<uint64_t>& saved, int block, int mb) {
    const uint64_t whole = transient(program_, "whole", shape_.parameters, TSR_BUFFER_GRADIENT);
    const uint64_t slice = transient(program_, "slice", shape_.parameters / 8, TSR_BUFFER_STAGING);
    for (int s = shape_.segments - 1; s >= 0; --s) {
      const uint64_t before = value(s == 2 ? 3 : s == 5 ? 4 : 1);
      std::vector<Use> uses = {read(parameters), read(dx), read(saved[2 * s]), read(saved[2 * s + 1]), write(before)};
      const uint64_t part = shape_.parameters / shape_.segments;
      uses.push_back(write(whole).at(s * part, part));
      add_action(program_, TSR_ACTION_BACKWARD, 0, uses);
      dx = before;
    }
    add_action(program_, TSR_ACTION_REDUCE_SCATTER, reduce_, {read(whole), write(slice)});
    const Use sum = mb == 0 ? write(gradient_[block]) : add(gradient_[block]);
    add_action(program_, TSR_ACTION_ADD_INTO, reduce_, {read(slice), sum});
    return dx;
  }

  Shape shape_;
  Program program_;
  uint32_t gather_ = 0, reduce_ = 0;
  std::vector<uint64_t> home_, gradient_;
};

}  // namespace tessera::testing
