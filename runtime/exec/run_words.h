// The run words of a step: what ranks tell one another in the sum of squares that every step has.
#pragma once

#include <array>
#include <cstdint>

#include "tessera/device.h"

namespace tessera::host {

/// What one rank asks for after a step (1 or 0), and in the sum, how many ranks do.
struct StepRequests {
  int64_t stop = 0;  ///< the run ends
  int64_t save = 0;  ///< a checkpoint is written
};

/// Where they are in the buffer of squares, in elements.
inline constexpr uint64_t kRunWordsBegin = TSR_ACCUMULATOR_LIMBS;
using RunWordValues = std::array<int64_t, TSR_SQUARES_WORDS - TSR_ACCUMULATOR_LIMBS>;

/// A rank's words before a step: that it arrived, and its requests.
RunWordValues run_words(const StepRequests& requests);

/// The requests of all ranks, from the words after step number `step`, which counts from 1. Throws DATA_LOSS when they
/// are not the sum over `num_ranks` ranks: then CLIP has refused the update, and nothing that this step computed is
/// whole. `of_communicator` and `of_device` are functions of the plugins; the device is named where no communicator can
/// have left the number.
StepRequests summed_requests(const RunWordValues& words, int num_ranks, uint64_t step,
                             const void* of_communicator = nullptr, const void* of_device = nullptr);

}  // namespace tessera::host
