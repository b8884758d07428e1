// The numbers of a report's charts.
#pragma once

#include <string>

#include "report/recorded_run.h"

namespace tessera::host {

/// One JSON object with the array "charts": of each its id, title and unit ("", "%" or "bytes"), whether its axis
/// begins at zero ("zero") and is logarithmic at first ("log"), and its series, each with name, steps "x", values "y"
/// and "last", the last step and its value. A curve with more points than a screen shows is reduced to means over
/// ranges of steps, with the smallest and largest value of each range in "low" and "high"; its "x" are then the last
/// steps of the ranges. Values that are not finite are null. Charts without any number are left out.
std::string charts_json(const RecordedRun& run);

}  // namespace tessera::host
