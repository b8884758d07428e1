// The columns of nccl-tests, so that results can be compared; ends of lines are left out here:
//
//     # collective            size       count     type  redop |       time       min   algbw   busbw | ...
//     #                        (B)  (elements)                 |       (us)      (us)  (GB/s)  (GB/s) | ...
//     all_reduce              4096        1024  float32    sum |       33.7      28.9    0.12    0.12 | ...
//
// Times are medians; `min` is the shortest, which is what the machine can do when nothing else runs.
//
// algbw is bytes of the buffer per second, busbw what the busiest link carries for it (collective_bench.h). GB are 10^9
// bytes.

#include "cli/bench/comm_table.h"

#include "base/concat.h"

namespace tessera::host {
namespace {

std::string rates_text(uint64_t num_bytes, const CollectiveSeconds& seconds, double bus_factor) {
  const double rate = static_cast<double>(num_bytes) / seconds.median * 1e-9;
  return format("%10.1f %9.1f %7.2f %7.2f", seconds.median * 1e6, seconds.least * 1e6, rate, rate * bus_factor);
}

}  // namespace

std::string comm_header() {
  return format("%-15s %11s %11s %8s %6s | %36s | %36s | %7s %6s\n", "#", "", "", "", "", "out of place            ",
                "in place              ", "", "") +
         format("%-15s %11s %11s %8s %6s | %10s %9s %7s %7s | %10s %9s %7s %7s | %7s %6s\n", "# collective", "size",
                "count", "type", "redop", "time", "min", "algbw", "busbw", "time", "min", "algbw", "busbw", "errors",
                "memory") +
         format("%-15s %11s %11s %8s %6s | %10s %9s %7s %7s | %10s %9s %7s %7s | %7s %6s\n", "#", "(B)", "(elements)",
                "", "", "(us)", "(us)", "(GB/s)", "(GB/s)", "(us)", "(us)", "(GB/s)", "(GB/s)", "", "(%)");
}

std::string comm_text(const CommLine& line) {
  const std::string none = format("%10s %9s %7s %7s", "-", "-", "-", "-");
  return format("%-15s %11llu %11llu %8s %6s | ", std::string(line.collective).c_str(),
                static_cast<unsigned long long>(line.num_bytes), static_cast<unsigned long long>(line.num_elements),
                std::string(line.dtype).c_str(), line.reduce.empty() ? "-" : std::string(line.reduce).c_str()) +
         rates_text(line.num_bytes, line.out_of_place, line.bus_factor) + " | " +
         (line.in_place ? rates_text(line.num_bytes, *line.in_place, line.bus_factor) : none) +
         format(" | %7llu ", static_cast<unsigned long long>(line.num_wrong)) +
         (line.memory_share ? format("%6.0f", 100 * *line.memory_share) : format("%6s", "-")) + "\n";
}

}  // namespace tessera::host
