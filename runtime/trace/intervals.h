// Sets of time, as intervals.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::host {

struct TimeSpan {
  int64_t begin_ns = 0, end_ns = 0;
};

/// The spans ascending, and joined where they touch or overlap.
std::vector<TimeSpan> joined(std::vector<TimeSpan> spans);
/// Of joined spans.
int64_t total_ns(const std::vector<TimeSpan>& spans);
/// The time in both; both are joined.
int64_t common_ns(const std::vector<TimeSpan>& a, const std::vector<TimeSpan>& b);

}  // namespace tessera::host
