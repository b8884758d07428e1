// What the broken policies do right: transient items leave for host memory in the gaps in which they come back in time.
#pragma once

#include <vector>

#include "tessera/offload.hpp"

namespace tessera::bad_policies {

/// All that may leave. Each answer is in the gap between two uses with `ahead` visits and more between them.
inline std::vector<tsr_leave> long_gaps(const OffloadView& view, uint32_t ahead) {
  std::vector<tsr_leave> answers;
  if (!view.find_place(TSR_MEMORY_HOST)) return answers;
  for (const tsr_item& item : view.items()) {
    const auto uses = OffloadView::uses(item);
    if (OffloadView::is_persistent(item)) continue;
    for (size_t i = 0; i + 1 < uses.size(); ++i)
      if (uses[i + 1].visit - uses[i].visit > ahead + 2)
        answers.push_back({item.buffer, uses[i].visit, TSR_MEMORY_HOST, ahead, 1});
  }
  return answers;
}

}  // namespace tessera::bad_policies
