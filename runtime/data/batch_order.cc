// Micro-steps of data ranks * batch * seq tokens, one after another; window r of a micro-step is data rank r's:
//
//     tokens   | rank 0       | rank 1       | rank 0       | rank 1       | rest |
//              ^ position, micro-step 0      ^ micro-step 1                ^ too short: the walk restarts at 0
//
// Every window also reads the token after it, the last target, so a micro-step needs one token more than it consumes.

#include "data/batch_order.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {

BatchOrder::BatchOrder(const TokenSource& source, int64_t batch, int64_t seq, int64_t data_ranks)
    : source_(source),
      window_tokens_(static_cast<uint64_t>(batch * seq)),
      step_tokens_(window_tokens_ * static_cast<uint64_t>(data_ranks)) {
  assert(batch > 0 && seq > 0 && data_ranks > 0);
  if (source.num_tokens() <= step_tokens_) {
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat(source.description(), " is too short: one micro-step of ", counted(data_ranks, "data rank"),
                       ", ", counted(batch, "sequence"), " each, ", counted(seq, "token"), " each, needs ",
                       step_tokens_ + 1, " tokens; use more data, or a smaller --batch-size or --seq-len"));
  }
}

void BatchOrder::set_position(uint64_t position) {
  if (position > source_.num_tokens()) {
    throw Error(TSR_E_INVALID_ARGUMENT, concat("the saved position ", position, " lies beyond ", source_.description(),
                                               "; give the data and the --data-order of the saved run"));
  }
  position_ = source_.num_tokens() - position > step_tokens_ ? position : 0;
}

void BatchOrder::read(int64_t data_rank, std::span<int32_t> inputs, std::span<int32_t> targets) const {
  assert(inputs.size() == window_tokens_ && targets.size() == window_tokens_);
  std::vector<int32_t> window(window_tokens_ + 1);
  source_.read(position_ + static_cast<uint64_t>(data_rank) * window_tokens_, window);
  std::copy(window.begin(), window.end() - 1, inputs.begin());
  std::copy(window.begin() + 1, window.end(), targets.begin());
}

void BatchOrder::advance() {
  set_position(position_ + step_tokens_);
}

}  // namespace tessera::host
