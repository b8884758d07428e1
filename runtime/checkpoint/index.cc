#include "checkpoint/index.h"

#include "base/concat.h"

namespace tessera::host {

uint64_t TensorPart::num_elements() const {
  uint64_t sum = 0;
  for (const StridedRange& range : ranges)
    sum += range.total_elements();
  return sum;
}

uint64_t SavedTensor::num_elements() const {
  uint64_t product = 1;
  for (const uint64_t extent : shape)
    product *= extent;
  return product;
}

uint64_t CheckpointIndex::total_bytes() const {
  uint64_t sum = 0;
  for (const SavedFile& file : files)
    sum += file.num_bytes;
  return sum;
}

std::string moment_name(std::string_view parameter, char which) {
  return concat("optim.", parameter, ".", which);
}

}  // namespace tessera::host
