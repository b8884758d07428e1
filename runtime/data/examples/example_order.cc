// Epochs follow one another without a gap, so a micro-step may span two of them:
//
//     example       4 2 0 5 1 3 6 2 5 0 6 1 ...      7 examples
//     epoch         0 0 0 0 0 0 0 1 1 1 1 1
//     micro-step    0 0 0 1 1 1 2 2 2 3 3 3          of 3 examples
//
// Leaving out the last, incomplete one would make the order depend on how a step is divided: two ranks of 32 leave out
// other examples than one rank of 64.

#include "data/examples/example_order.h"

#include <cassert>
#include <vector>

#include "data/shuffle.h"

namespace tessera::host {

ExampleOrder::ExampleOrder(const ExampleSource& source, int64_t batch, int64_t data_ranks, uint64_t seed,
                           bool is_shuffled)
    : source_(source),
      batch_(static_cast<uint64_t>(batch)),
      step_examples_(batch_ * static_cast<uint64_t>(data_ranks)),
      seed_(seed),
      is_shuffled_(is_shuffled) {
  assert(batch > 0 && data_ranks > 0 && source.num_examples() > 0);
}

void ExampleOrder::read(int64_t data_rank, std::span<float> features, std::span<int32_t> labels) const {
  assert(labels.size() == batch_);
  const uint64_t num = source_.num_examples();
  uint64_t position = position_ + static_cast<uint64_t>(data_rank) * batch_;
  std::vector<uint32_t> examples(labels.size());
  for (uint32_t& example : examples) {
    const uint64_t place = position % num;
    example = static_cast<uint32_t>(is_shuffled_ ? shuffled(seed_, position / num, num, place) : place);
    ++position;
  }
  source_.read(examples, features, labels);
}

}  // namespace tessera::host
