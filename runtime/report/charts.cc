// The numbers of a report's charts, as page.js draws them. Of a run of 20,000 steps:
//
//     {"charts":[{"id":"loss","title":"Loss","unit":"","zero":false,"log":false,"series":[
//       {"name":"training","x":[20,40,...],"y":[6.1,5.2,...],"low":[5.9,...],"high":[10.9,...],"last":[20000,1.8]},
//       {"name":"evaluation","x":[1000,2000,...],"y":[3.4,3.1,...],"last":[20000,1.9]}]}]}
//
// A long curve becomes the means of ranges, with the least and greatest value of each. Samples would leave out spikes,
// which are what a reader looks for.

#include "report/charts.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace tessera::host {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxPoints = 1000;

struct SeriesName {
  const char* curve;  // of RecordedRun
  const char* shown;
};

struct Range {
  double mean, low, high;
};

/// Of the values in [begin, end) that are finite; NaN without any.
Range range_of(const std::vector<double>& values, size_t begin, size_t end) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  Range range{0, kNone, kNone};
  size_t num_finite = 0;
  for (size_t i = begin; i < end; ++i) {
    if (!std::isfinite(values[i])) continue;
    range.mean += values[i];
    // fmin and fmax take the number where the other is NaN, so NaN is a start that never counts.
    range.low = std::fmin(range.low, values[i]);
    range.high = std::fmax(range.high, values[i]);
    ++num_finite;
  }
  range.mean = num_finite ? range.mean / static_cast<double>(num_finite) : kNone;
  return range;
}

Json series(const Curve& curve, const char* name) {
  Json json = {{"name", name}};
  const size_t num_values = curve.values.size();
  if (num_values <= kMaxPoints) {
    json["x"] = curve.steps;
    json["y"] = curve.values;  // the library writes null for what is not finite
  } else {
    for (size_t i = 0; i < kMaxPoints; ++i) {
      const size_t begin = i * num_values / kMaxPoints, end = (i + 1) * num_values / kMaxPoints;
      const Range range = range_of(curve.values, begin, end);
      json["x"].push_back(curve.steps[end - 1]);
      json["y"].push_back(range.mean);
      json["low"].push_back(range.low);
      json["high"].push_back(range.high);
    }
  }
  json["last"] = {curve.steps.back(), curve.values.back()};
  return json;
}

struct ChartName {
  const char* id;
  std::string title;
  const char* unit = "";
  bool zero = false, log = false;
};

void add_chart(Json& charts, const RecordedRun& run, const ChartName& chart, const std::vector<SeriesName>& names) {
  Json all = Json::array();
  for (const auto& [curve, shown] : names)
    if (const auto found = run.curves.find(curve); found != run.curves.end())
      all.push_back(series(found->second, shown));
  if (all.empty()) return;
  charts.push_back({{"id", chart.id},
                    {"title", chart.title},
                    {"unit", chart.unit},
                    {"zero", chart.zero},
                    {"log", chart.log},
                    {"series", all}});
}

}  // namespace

std::string charts_json(const RecordedRun& run) {
  Json charts = Json::array();
  add_chart(charts, run, {"loss", "Loss"}, {{"loss", "training"}, {"eval loss", "evaluation"}});
  add_chart(charts, run, {"accuracy", "Accuracy", "%"}, {{"accuracy", "training"}, {"eval accuracy", "evaluation"}});
  add_chart(charts, run, {.id = "norm", .title = "Gradient norm, before clipping", .log = true},
            {{"grad_norm", "norm"}});
  add_chart(charts, run, {"lr", "Learning rate", "", true}, {{"lr", "rate"}});
  const std::string items = run.items == "tokens" ? "Tokens" : "Examples";
  add_chart(charts, run, {"speed", items + " per second, all ranks", "", true}, {{"per_second", run.items.c_str()}});
  add_chart(charts, run, {"memory", "Memory of rank 0", "bytes", true},
            {{"memory_bytes", "in use"}, {"peak_memory_bytes", "peak"}});
  return Json({{"charts", charts}}).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tessera::host
