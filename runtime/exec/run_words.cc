// After the 20 limbs of the squares come four words. Each rank sets its own before a step, the collective that sums the
// squares sums them too, and each rank reads the sums after it:
//
//                    arrivals   stop   save   -
//     rank 0         1          0      0      0
//     rank 1         1          1      0      0        it got SIGTERM
//     after the sum  2          1      0      0        on both: clip compares 2 with the ranks, both stop
//
// No rank passes that sum without all others, so all read the same in the same step: agreement costs 32 bytes and no
// message. Arrivals are a proof. Where streams cannot fail, as on GPUs, a collective that is aborted ends like any
// other and what follows computes with what the memory holds (decision 0019); clip then finds fewer ranks than it
// should, and parameters stay as they were. A word that is not set anew holds the last sum, which is too large for one
// rank's.

#include "exec/run_words.h"

#include "base/concat.h"
#include "guard/known_functions.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

int64_t& at(RunWordValues& words, int word) {
  return words[static_cast<size_t>(word - TSR_ACCUMULATOR_LIMBS)];
}

int64_t at(const RunWordValues& words, int word) {
  return words[static_cast<size_t>(word - TSR_ACCUMULATOR_LIMBS)];
}

}  // namespace

RunWordValues run_words(const StepRequests& requests) {
  RunWordValues words{};
  at(words, TSR_WORD_ARRIVALS) = 1;
  at(words, TSR_WORD_STOP) = requests.stop;
  at(words, TSR_WORD_SAVE) = requests.save;
  return words;
}

StepRequests summed_requests(const RunWordValues& words, int num_ranks, uint64_t step, const void* of_communicator,
                             const void* of_device) {
  const int64_t arrivals = at(words, TSR_WORD_ARRIVALS);
  const int64_t most = int64_t{num_ranks} * num_ranks;  // every rank's word was the last sum
  if (arrivals != num_ranks && (num_ranks == 1 || arrivals < 0 || arrivals > most))
    throw Error(TSR_E_DATA_LOSS,
                concat("step ", step, ": the sum of squares counts ", arrivals, " ranks instead of ", num_ranks,
                       ", which no communicator explains: work of ", plugin_text(of_device),
                       " has run too early or not at all, or has overwritten the count; use another ", "--device"));
  if (arrivals != num_ranks)
    throw Error(TSR_E_DATA_LOSS,
                concat("step ", step, ": the sum of squares counts ", arrivals, " ranks instead of ", num_ranks,
                       ", so it is not whole and no parameter was updated; a collective of ",
                       plugin_text(of_communicator), " was cut short, or has lost data"));
  return {at(words, TSR_WORD_STOP), at(words, TSR_WORD_SAVE)};
}

}  // namespace tessera::host
