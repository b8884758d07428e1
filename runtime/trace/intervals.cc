// Actions of several streams run at the same time, and no moment may count twice. So the spans of each kind of work are
// joined first; then a total is a sum, and what two kinds have in common is found in one pass over both:
//
//     communication   |-----|     |--------|
//     compute             |---------|     |----|
//     common              |-|     |-|     ||

#include "trace/intervals.h"

#include <algorithm>

namespace tessera::host {

std::vector<TimeSpan> joined(std::vector<TimeSpan> spans) {
  std::ranges::sort(spans, {}, &TimeSpan::begin_ns);
  std::vector<TimeSpan> result;
  for (const TimeSpan& span : spans) {
    if (result.empty() || span.begin_ns > result.back().end_ns)
      result.push_back(span);
    else
      result.back().end_ns = std::max(result.back().end_ns, span.end_ns);
  }
  return result;
}

int64_t total_ns(const std::vector<TimeSpan>& spans) {
  int64_t total = 0;
  for (const TimeSpan& span : spans)
    total += span.end_ns - span.begin_ns;
  return total;
}

int64_t common_ns(const std::vector<TimeSpan>& a, const std::vector<TimeSpan>& b) {
  int64_t total = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    total += std::max<int64_t>(0, std::min(a[i].end_ns, b[j].end_ns) - std::max(a[i].begin_ns, b[j].begin_ns));
    ++(a[i].end_ns < b[j].end_ns ? i : j);
  }
  return total;
}

}  // namespace tessera::host
