#include "observe/metrics.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "observe/text.h"
#include "tessera/error.hpp"

namespace tessera {
namespace {

nlohmann::ordered_json number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

[[noreturn]] void fail(const char* what, const std::string& path) {
  throw Error(TSR_E_UNAVAILABLE, concat("cannot ", what, " the metrics file ", path, ": ", std::strerror(errno),
                                        "; check --metrics and the free space there"));
}

}  // namespace

std::string to_json_line(const StepMetrics& m) {
  nlohmann::ordered_json planned = nlohmann::ordered_json::object();
  for (const auto& [name, num_bytes] : m.planned_bytes)
    planned[name] = num_bytes;
  const nlohmann::ordered_json line = {{"step", m.step},
                                       {"loss", number(m.loss)},
                                       {"grad_norm", number(m.grad_norm)},
                                       {"lr", number(m.lr)},
                                       {"loss_scale", number(m.loss_scale)},
                                       {"step_ms", number(m.step_ms)},
                                       {"tokens_per_second", number(m.tokens_per_second)},
                                       {"tokens", m.tokens},
                                       {"memory_bytes", m.memory_bytes},
                                       {"peak_memory_bytes", m.peak_memory_bytes},
                                       {"planned_peak_bytes", m.planned_peak_bytes},
                                       {"planned_bytes", planned}};
  return line.dump();
}

MetricsWriter::MetricsWriter(const std::string& path) : path_(path) {
  errno = 0;
  out_.open(path, std::ios::out | std::ios::trunc);
  if (!out_) fail("create", path_);
}

void MetricsWriter::write(const StepMetrics& metrics) {
  errno = 0;
  out_ << to_json_line(metrics) << '\n' << std::flush;
  if (!out_) fail("write", path_);
}

}  // namespace tessera
