#include "cpu-device/kernels/bf16/head_products.h"

#include <vector>

namespace tessera::cpu {

Bf16Product HeadProducts::make(const Key& key) const {
  const auto [kind, num_rows, size, accumulate] = key;
  switch (kind) {
    case Kind::kLogits:
      return {{num_rows, size, columns_}, {columns_}, {columns_, true}, size, accumulate};
    case Kind::kTableGradient:
      return {{size, columns_, num_rows}, {size, true}, {columns_}, columns_, accumulate};
    default:
      return {{num_rows, columns_, size}, {size}, {columns_}, columns_, accumulate};
  }
}

void HeadProducts::prepare(uint64_t num_tokens, bool with_gradients) {
  const auto add = [&](Kind kind, uint64_t num_rows, uint64_t block, bool accumulate) {
    const Key key{kind, num_rows, size(block), accumulate};
    if (products_.count(key) == 0) products_.emplace(key, make(key));
  };
  const EqualParts rows = gradient_rows(num_tokens);
  for (const uint64_t block : {uint64_t{0}, num_blocks() - 1}) {  // all but the last are equal
    add(Kind::kLogits, num_tokens, block, false);
    if (!with_gradients) continue;
    for (const bool accumulate : {false, true}) {
      add(Kind::kTableGradient, num_tokens, block, accumulate);
      for (uint64_t part = 0; part < rows.num_parts; ++part)
        add(Kind::kInputGradient, rows.size(part), block, accumulate);
    }
  }
}

void HeadProducts::multiply(uint64_t num_tokens, uint64_t block, const uint16_t* x, const uint16_t* table,
                            float* logits) const {
  of(Kind::kLogits, num_tokens, block, false).run(x, table + begin(block) * columns_, logits);
}

void HeadProducts::table_gradient(uint64_t num_tokens, uint64_t block, const uint16_t* dlogits, const uint16_t* x,
                                  bool accumulate, float* dtable) const {
  of(Kind::kTableGradient, num_tokens, block, accumulate).run(dlogits, x, dtable + begin(block) * columns_);
}

void HeadProducts::input_gradient(uint64_t num_tokens, uint64_t first_part, uint64_t last_part, uint64_t block,
                                  const uint16_t* dlogits, const uint16_t* table, bool accumulate, float* dx) const {
  const EqualParts rows = gradient_rows(num_tokens);
  std::vector<const uint16_t*> parts;
  std::vector<Bf16Product::Result> results;
  for (uint64_t part = first_part; part < last_part; ++part) {
    parts.push_back(dlogits + rows.begin(part) * size(block));
    results.push_back(
        {&of(Kind::kInputGradient, rows.size(part), block, accumulate), dx + rows.begin(part) * columns_});
  }
  const uint16_t* const table_block = table + begin(block) * columns_;
  Bf16Product::run_all(parts, {&table_block, 1}, results);
}

}  // namespace tessera::cpu
