// An exact sum at the speed of memory. Adding each square to the accumulator would cost three integer additions an
// element; instead a block of 1024 values is summed in two doubles, which are exact as long as the exponents of its
// values lie within a window of 20 (sum_squares_simd.cc has the proof), and only those two go into the accumulator.
//
// Gradients of a block nearly always lie in one window, and in that of the block before it. So that one is tried first:
// one pass, which also says whether it left anything out. If it did, the window is looked for: one pass for the largest
// exponent and then one a window, from there down, at most 13: float32 has 254 exponents. Values that are not finite
// are counted in limb 0 and left out of the rest.
#include "cpu-device/kernels/step/sum_squares.h"

namespace tessera::cpu {

void SquaresSum::add(const float* values, size_t num_elements) {
  for (size_t begin = 0; begin < num_elements; begin += kSquaresBlock)
    add_block(values + begin, std::min(kSquaresBlock, num_elements - begin));
}

void SquaresSum::add_block(const float* block, size_t num_elements) {
  if (sum_within_(block, num_elements, likely_.first, likely_.bound, likely_.exponent, &high_, &low_))
    take();
  else
    add_from_the_top(block, num_elements);
  carry(limbs_);
}

void SquaresSum::add_from_the_top(const float* block, size_t num_elements) {
  uint32_t bound = kMagnitude + 1;
  uint32_t magnitude = largest_(block, num_elements, bound);
  if (magnitude >= kInfinity) {
    for (size_t i = 0; i < num_elements; ++i)
      if (!std::isfinite(block[i])) ++limbs_[0];
    bound = kInfinity;
    magnitude = largest_(block, num_elements, bound);
  }
  likely_ = ExponentWindow(std::max(magnitude >> 23, 1u) + 1);  // the next block may have somewhat larger values
  while (magnitude != 0) {
    const ExponentWindow window(std::max(magnitude >> 23, 1u), bound);
    sum_window_(block, num_elements, window.first, window.bound, window.exponent, &high_, &low_);
    take();
    bound = window.first;
    magnitude = largest_(block, num_elements, bound);
  }
}

void SquaresSum::take() {
  accumulate(limbs_, high_);
  accumulate(limbs_, low_);
}

}  // namespace tessera::cpu
