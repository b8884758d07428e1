// One rank of `tessera bench comm`. It opens its device, joins one group of all ranks, and measures collectives and
// sizes in the same order as the others. Rank 0 reports its own times and the errors of all ranks.
//
//     compare settings | memory bandwidth by size | for each kind and size: check, out of place, in place | end
//
// What ranks tell one another goes through the job's store, not through the communicator, which is what is measured and
// may be wrong.

#include <algorithm>
#include <iostream>
#include <map>

#include "base/concat.h"
#include "cli/bench/bench_commands.h"
#include "cli/bench/comm_bench.h"
#include "cli/bench/comm_table.h"
#include "config/text_values.h"
#include "launch/fingerprint.h"
#include "plugins/host_services.h"
#include "rates/measure.h"
#include "rates/memory_bench.h"
#include "tessera/error.hpp"
#include "train/consistency.h"

namespace tessera::host {
namespace {

constexpr uint64_t kMinMemoryBytes = uint64_t{1} << 20;  // below this, latency dominates

/// The sum over all ranks.
double summed(const RankInfo& info, int num_ranks, const std::string& question, double own, int64_t timeout_ms) {
  info.store->set(concat("bench/", question, "/", info.rank), shortest(own));
  double sum = 0;
  for (int rank = 0; rank < num_ranks; ++rank)
    sum += std::stod(info.store->get(concat("bench/", question, "/", rank), timeout_ms));
  return sum;
}

/// One rank.
class CommRank {
 public:
  CommRank(const CommBench& bench, const RankInfo& info, int num_ranks, const Log& log)
      : bench_(bench),
        info_(info),
        num_ranks_(num_ranks),
        log_(log),
        host_(log, info.store),
        device_({bench.used_device().device(), bench.used_options().values(), static_cast<uint32_t>(info.local_rank), 1,
                 host_.of(bench.used_device())}),
        group_(setup(), device_, member()) {}

  void run() {
    check_equal();
    measure_memory_by_size();
    if (info_.rank == 0) print_start();
    CollectiveBench collectives(group_, bench_.sizes.back(), bench_.dtype.dtype);
    for (const CollectiveKind& kind : bench_.kinds)
      for (const uint64_t size : bench_.sizes) {
        // A barrier has no size.
        if (kind.kind == TSR_COLL_BARRIER && size != bench_.sizes.front()) continue;
        measure(collectives, kind, size);
      }
    barrier(info_, num_ranks_, "end", bench_.timeout_ms, log_);
    if (info_.rank == 0) finish();
    if (num_wrong_ > 0)
      throw Error(TSR_E_INTERNAL, concat("--comm ", bench_.communicator.name, " gave ", num_wrong_,
                                         " wrong elements, and reported no error; use another communicator"));
  }

 private:
  CommunicatorSetup setup() const {
    CommunicatorSetup setup;
    setup.api = bench_.communicator.communicator();
    setup.host = host_.of(bench_.communicator);
    setup.options = bench_.comm_options.values();
    setup.is_local = info_.is_local;
    setup.store_host = info_.store_host;
    setup.start_timeout_ms = setup.timeout_ms = bench_.timeout_ms;
    setup.cancelled = info_.cancelled;
    return setup;
  }
  GroupMember member() const {
    GroupMember member{info_.rank, {}, "world"};
    for (int rank = 0; rank < num_ranks_; ++rank)
      member.world_ranks.push_back(rank);
    return member;
  }
  double sum(const std::string& question, double own) {
    return summed(info_, num_ranks_, question, own, bench_.timeout_ms);
  }

  /// Ranks that measured different things would wait for one another.
  void check_equal() const {
    std::string kinds, sizes;
    for (const CollectiveKind& kind : bench_.kinds)
      kinds += concat(kind.name, " ");
    for (const uint64_t size : bench_.sizes)
      sizes += concat(size, " ");
    require_equal_fingerprints(*info_.store, info_.rank, num_ranks_, "compare their settings",
                               {{"plugin " + bench_.communicator.name, bench_.communicator.fingerprint()},
                                {"--collectives", kinds},
                                {"the sizes", sizes},
                                {"--dtype", std::string(bench_.dtype.name)},
                                {"--redop", std::string(bench_.reduce.name)},
                                {"--iters", std::to_string(bench_.rounds.num_measured)},
                                {"--warmup", std::to_string(bench_.rounds.num_warmups)}},
                               bench_.timeout_ms, log_);
  }

  /// Memory bandwidth, where all ranks share the memory of one machine. Measured per size, since small ones fit in
  /// caches.
  void measure_memory_by_size() {
    if (!info_.is_local || view(device_.api().stream_kind) != view(bench_.cpu.device()->stream_kind)) return;
    for (const uint64_t size : bench_.sizes) {
      if (size < kMinMemoryBytes) continue;
      barrier(info_, num_ranks_, concat("measure memory by ", size, " bytes"), bench_.timeout_ms, log_);
      memory_[size] = sum(concat("memory/", size), measure_memory(device_, size));
    }
  }

  void print_start() const {
    std::cout << "# " << bench_.communicator.name << " " << bench_.communicator.version << ", "
              << counted(num_ranks_, "rank") << ", device " << device_name()
              << "; times of rank 0: median and least of " << bench_.rounds.num_measured << " after "
              << bench_.rounds.num_warmups << '\n';
    if (!bench_.reason.empty())
      std::cout << "# --comm auto chose " << bench_.communicator.name << " since " << bench_.reason << '\n';
    for (const auto& [size, rate] : memory_)
      std::cout << "# memory: copies of " << print_bytes(size) << " by all ranks at once read and write "
                << format("%.1f GB/s\n", rate * 1e-9);
    std::cout << comm_header() << std::flush;
  }
  std::string device_name() const { return bench_.used_device().name; }

  void measure(CollectiveBench& collectives, const CollectiveKind& kind, uint64_t size) {
    const CollectiveCase one{kind.kind, size, bench_.dtype.dtype, bench_.reduce.reduce};
    CommLine line{kind.name, bench_.dtype.name, kind.is_reduction ? bench_.reduce.name : "", 0, 0, {}, {}, 1, 0, {}};
    line.num_elements = collectives.num_elements(one);
    line.num_bytes = TSR_NUM_BYTES(bench_.dtype.dtype, line.num_elements);
    line.bus_factor = bus_factor(kind.kind, num_ranks_);
    const auto wrong = static_cast<double>(collectives.count_wrong(one));
    line.num_wrong = static_cast<uint64_t>(sum(concat("wrong/", kind.name, "/", size), wrong));
    num_wrong_ += line.num_wrong;
    line.out_of_place = collectives.measure(one, bench_.rounds, false);
    if (CollectiveBench::can_be_in_place(kind.kind)) line.in_place = collectives.measure(one, bench_.rounds, true);
    const double seconds = std::min(line.out_of_place.median, line.in_place.value_or(line.out_of_place).median);
    if (const auto memory = memory_.find(size); memory != memory_.end() && line.num_bytes > 0)
      line.memory_share =
          memory_factor(kind.kind, num_ranks_) * static_cast<double>(line.num_bytes) / seconds / memory->second;
    if (info_.rank != 0) return;
    std::cout << comm_text(line) << std::flush;
    rates_.times.push_back({std::string(kind.name), static_cast<double>(line.num_bytes), seconds});
  }

  void finish() {
    std::cout << "# " << counted(num_wrong_, "error") << '\n';
    if (!bench_.rates_file.is_wanted()) return;
    Rates rates;
    rates.measured = time_of_measurement();
    rates_.communicator = bench_.communicator.name;
    rates_.num_ranks = num_ranks_;
    rates.collectives = {std::move(rates_)};
    bench_.rates_file.write(rates);
  }

  const CommBench& bench_;
  const RankInfo& info_;
  const int num_ranks_;
  const Log log_;
  const HostServices host_;
  const Device device_;
  CollectiveGroup group_;
  std::map<uint64_t, double> memory_;  ///< by size: bytes a second of all ranks
  uint64_t num_wrong_ = 0;
  CollectiveRates rates_;
};

}  // namespace

void measure_as_rank(const CommBench& bench, const RankInfo& info, int num_ranks, const Log& log) {
  CommRank(bench, info, num_ranks, log).run();
}

}  // namespace tessera::host
