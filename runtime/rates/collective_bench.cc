// Rank r sends (i + r) mod 5 as element i, so every result is a small whole number that each dtype has. Results are
// checked before anything is measured, out of place; what a result does not write keeps the bytes FF, which no number
// has.
//
// Collectives are timed on their stream, which reads the clock between any two of them; on a stream that does not run
// on the host that is slow, so there the clock is read once per batch. On a stream of the host each collective is
// between two functions that count (exec/watch/collective_clock.h), as in a step. They are submitted back to back, as
// in nccl-tests:
//
//     stream    warm-up ... | clock | collective | clock | collective | clock | ...
//
// The median counts, and the least is given beside it: what the machine does when nothing else interferes.

#include "rates/collective_bench.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "guard/plugin_calls.h"
#include "tessera/error.hpp"
#include "tessera/half.hpp"

namespace tessera::host {
namespace {

constexpr int kNumbers = 5;
constexpr int kBatch = 10;
constexpr uint64_t kCheckedBytes = 4 << 20;  // of a result, at a time

constexpr std::array<CollectiveKind, 9> kKinds = {{{TSR_COLL_ALL_REDUCE, "all_reduce", true, false},
                                                   {TSR_COLL_REDUCE_SCATTER, "reduce_scatter", true, true},
                                                   {TSR_COLL_ALL_GATHER, "all_gather", false, true},
                                                   {TSR_COLL_BROADCAST, "broadcast", false, false},
                                                   {TSR_COLL_REDUCE, "reduce", true, false},
                                                   {TSR_COLL_ALL_TO_ALL, "all_to_all", false, true},
                                                   {TSR_COLL_SEND, "send", false, false},
                                                   {TSR_COLL_EXCHANGE, "exchange", false, false},
                                                   {TSR_COLL_BARRIER, "barrier", false, false}}};

const CollectiveKind& kind_of(uint32_t kind) {
  return *std::ranges::find(kKinds, kind, &CollectiveKind::kind);
}

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

void encode(tsr_dtype dtype, int number, std::byte* at) {
  const auto value = static_cast<float>(number);
  switch (dtype) {
    case TSR_F32:
      return put(at, value);
    case TSR_F64:
      return put(at, static_cast<double>(number));
    case TSR_F16:
      return put(at, float_to_f16(value));
    case TSR_BF16:
      return put(at, float_to_bf16(value));
    case TSR_I32:
      return put(at, int32_t{number});
    default:
      throw Error(TSR_E_UNSUPPORTED, "collectives of this dtype are not measured");
  }
}

tsr_status read_clock(void* time, tsr_error*) noexcept {
  *static_cast<std::chrono::steady_clock::time_point*>(time) = std::chrono::steady_clock::now();
  return TSR_OK;
}

int number_at(uint64_t element, int rank) {
  return static_cast<int>((element + static_cast<uint64_t>(rank)) % kNumbers);
}

int reduced(uint32_t reduce, int a, int b) {
  return reduce == TSR_REDUCE_MAX ? std::max(a, b) : reduce == TSR_REDUCE_MIN ? std::min(a, b) : a + b;
}

}  // namespace

std::span<const CollectiveKind> collective_kinds() {
  return kKinds;
}

double bus_factor(uint32_t kind, int num_ranks) {
  const double others = static_cast<double>(num_ranks - 1) / num_ranks;
  if (kind == TSR_COLL_ALL_REDUCE) return 2 * others;
  return kind_of(kind).has_slices ? others : 1;
}

double memory_factor(uint32_t kind, int num_ranks) {
  const double n = num_ranks;
  switch (kind) {
    case TSR_COLL_ALL_REDUCE:  // n operands are read, n results are written
      return 2 * n;
    case TSR_COLL_REDUCE_SCATTER:
    case TSR_COLL_REDUCE:
      return n + 1;
    case TSR_COLL_ALL_GATHER:
    case TSR_COLL_BROADCAST:
      return 2 * (n - 1);
    case TSR_COLL_SEND:
      return 2;
    case TSR_COLL_BARRIER:
      return 0;
    default:
      return 2 * n;
  }
}

CollectiveBench::CollectiveBench(CollectiveGroup& group, uint64_t most_bytes, tsr_dtype dtype)
    : group_(group),
      dtype_(dtype),
      send_(group.device(), TSR_MEMORY_DEVICE,
            std::max(most_bytes, static_cast<uint64_t>(group.num_ranks()) * sizeof(double))),
      recv_(group.device(), TSR_MEMORY_DEVICE, send_.num_bytes()) {
  fill();
}

void CollectiveBench::fill() {
  const uint64_t element_bytes = TSR_NUM_BYTES(dtype_, 1), num_elements = send_.num_bytes() / element_bytes;
  const uint64_t piece = kCheckedBytes / element_bytes / kNumbers * kNumbers;  // the numbers restart in each
  std::vector<std::byte> numbers(std::min(piece, num_elements) * element_bytes);
  for (uint64_t i = 0; i < numbers.size() / element_bytes; ++i)
    encode(dtype_, number_at(i, group_.position()), numbers.data() + i * element_bytes);
  const auto& api = group_.device().api();
  for (uint64_t done = 0; done < num_elements; done += piece)
    call(api.copy, group_.stream(), send_.at(done * element_bytes), numbers.data(),
         std::min(piece, num_elements - done) * element_bytes);
  call(api.fill, group_.stream(), recv_.at(0), 0u, recv_.num_bytes());
  group_.wait();
}

uint64_t CollectiveBench::num_elements(const CollectiveCase& one) const {
  if (one.kind == TSR_COLL_BARRIER) return 0;
  const uint64_t given = std::max<uint64_t>(1, one.num_bytes / TSR_NUM_BYTES(dtype_, 1));
  const auto n = static_cast<uint64_t>(group_.num_ranks());
  return kind_of(one.kind).has_slices ? std::max<uint64_t>(1, given / n) * n : given;
}

bool CollectiveBench::can_be_in_place(uint32_t kind) {
  return kind_of(kind).is_reduction || kind == TSR_COLL_ALL_GATHER || kind == TSR_COLL_BROADCAST;
}

tsr_collective CollectiveBench::prepare(const CollectiveCase& one, bool in_place) {
  const auto n = static_cast<uint64_t>(group_.num_ranks()), r = static_cast<uint64_t>(group_.position());
  const uint64_t whole = num_elements(one), slice = whole / n, slice_bytes = TSR_NUM_BYTES(dtype_, slice);
  const bool has_slices = kind_of(one.kind).has_slices;
  tsr_collective c{};
  c.struct_size = sizeof c;
  c.kind = one.kind;
  c.reduce = kind_of(one.kind).is_reduction ? one.reduce : 0;
  c.dtype = dtype_;
  c.num_elements = has_slices ? slice : whole;
  c.label = str("bench");
  std::byte* const to = (in_place ? send_ : recv_).at(0);
  c.send = send_.at(0);
  c.recv = to;
  if (in_place && one.kind == TSR_COLL_REDUCE_SCATTER) c.recv = to + r * slice_bytes;
  if (in_place && one.kind == TSR_COLL_ALL_GATHER) c.send = send_.at(r * slice_bytes);
  if (one.kind == TSR_COLL_SEND) {
    c.peer = r == 0 ? 1 : 0;
    if (r != 0) c.kind = TSR_COLL_RECV;
    (r == 0 ? c.recv : const_cast<void*&>(c.send)) = nullptr;
  }
  if (one.kind == TSR_COLL_EXCHANGE) {
    const auto next = static_cast<int32_t>((r + 1) % n), before = static_cast<int32_t>((r + n - 1) % n);
    transfers_ = {{send_.at(0), whole, next, 0, {}}, {recv_.at(0), whole, before, 1, {}}};
    c.transfers = transfers_.data();
    c.num_transfers = transfers_.size();
    c.send = c.recv = nullptr;
    c.num_elements = 0;
  }
  if (one.kind == TSR_COLL_BARRIER) {
    c.send = c.recv = nullptr;
    c.dtype = 0;
  }
  const uint64_t num_bytes = group_.workspace_bytes(c);
  if (num_bytes && (!workspace_ || workspace_->num_bytes() < num_bytes)) {
    group_.wait();
    workspace_.emplace(group_.device(), TSR_MEMORY_DEVICE, num_bytes);
  }
  if (num_bytes) c.workspace = workspace_->at(0);
  return c;
}

std::optional<uint64_t> CollectiveBench::num_received(const CollectiveCase& one) const {
  const int r = group_.position();
  switch (one.kind) {
    case TSR_COLL_REDUCE_SCATTER:
      return num_elements(one) / static_cast<uint64_t>(group_.num_ranks());
    case TSR_COLL_REDUCE:
      return r == 0 ? std::optional(num_elements(one)) : std::nullopt;
    case TSR_COLL_SEND:
      return r == 1 ? std::optional(num_elements(one)) : std::nullopt;
    default:
      return num_elements(one);
  }
}

/// What element `element` of this rank's result must be.
std::function<int(uint64_t element)> CollectiveBench::expected(const CollectiveCase& one) const {
  const int n = group_.num_ranks(), r = group_.position();
  const uint64_t slice = std::max<uint64_t>(1, num_elements(one) / static_cast<uint64_t>(n));
  const uint64_t own_begin = static_cast<uint64_t>(r) * slice;
  if (kind_of(one.kind).is_reduction) {
    std::array<int, kNumbers> results{};
    for (uint64_t i = 0; i < kNumbers; ++i) {
      results[i] = number_at(i, 0);
      for (int rank = 1; rank < n; ++rank)
        results[i] = reduced(one.reduce, results[i], number_at(i, rank));
    }
    const uint64_t begin = one.kind == TSR_COLL_REDUCE_SCATTER ? own_begin : 0;
    return [=](uint64_t element) { return results[(begin + element) % kNumbers]; };
  }
  const auto from = [=](uint64_t element) { return static_cast<int>(element / slice); };
  if (one.kind == TSR_COLL_ALL_GATHER)
    return [=](uint64_t element) { return number_at(element % slice, from(element)); };
  if (one.kind == TSR_COLL_ALL_TO_ALL)
    return [=](uint64_t element) { return number_at(own_begin + element % slice, from(element)); };
  const int root = one.kind == TSR_COLL_EXCHANGE ? (r + n - 1) % n : 0;
  return [=](uint64_t element) { return number_at(element, root); };
}

/// A sum of n ranks is at most 4 n, the largest of all results.
std::vector<std::byte> CollectiveBench::encoded_numbers() const {
  const uint64_t element_bytes = TSR_NUM_BYTES(dtype_, 1);
  const int num_numbers = (kNumbers - 1) * group_.num_ranks() + 1;
  std::vector<std::byte> numbers(static_cast<size_t>(num_numbers) * element_bytes);
  for (int i = 0; i < num_numbers; ++i)
    encode(dtype_, i, numbers.data() + static_cast<size_t>(i) * element_bytes);
  return numbers;
}

uint64_t CollectiveBench::count_wrong(const CollectiveCase& one) {
  const auto& api = group_.device().api();
  const tsr_collective c = prepare(one, false);
  call(api.fill, group_.stream(), recv_.at(0), 0xFFu, recv_.num_bytes());
  const bool takes_part = one.kind != TSR_COLL_SEND || group_.position() < 2;
  if (takes_part) group_.submit(c);
  group_.wait();
  const std::optional<uint64_t> count = num_received(one);
  if (!count) return 0;
  const uint64_t element_bytes = TSR_NUM_BYTES(dtype_, 1), piece = kCheckedBytes / element_bytes;
  const std::vector<std::byte> numbers = encoded_numbers();
  const auto number_of = expected(one);
  std::vector<std::byte> got(std::min(piece, *count) * element_bytes);
  uint64_t num_wrong = 0;
  for (uint64_t done = 0; done < *count; done += piece) {
    const uint64_t here = std::min(piece, *count - done);
    call(api.copy, group_.stream(), got.data(), recv_.at(done * element_bytes), here * element_bytes);
    group_.wait();
    for (uint64_t i = 0; i < here; ++i) {
      const auto number = static_cast<uint64_t>(number_of(done + i));
      num_wrong += std::memcmp(&got[i * element_bytes], &numbers[number * element_bytes], element_bytes) != 0;
    }
  }
  return num_wrong;
}

CollectiveSeconds CollectiveBench::measure(const CollectiveCase& one, const CollectiveRounds& rounds, bool in_place) {
  const auto& api = group_.device().api();
  const tsr_collective c = prepare(one, in_place);
  const int batch = group_.is_on_host() ? 1 : std::min(kBatch, rounds.num_measured);
  const auto num_batches = static_cast<size_t>((rounds.num_measured + batch - 1) / batch);
  const bool takes_part = one.kind != TSR_COLL_SEND || group_.position() < 2;
  std::vector<Clock::time_point> times(num_batches + 1);
  const auto run = [&](int count) {
    for (int i = 0; takes_part && i < count; ++i)
      group_.submit(c);
  };
  run(rounds.num_warmups);
  call(api.host_function, group_.stream(), &read_clock, times.data());
  for (size_t i = 1; i <= num_batches; ++i) {
    run(batch);
    call(api.host_function, group_.stream(), &read_clock, &times[i]);
  }
  group_.wait();
  if (std::ranges::count(times, Clock::time_point()) > 0)
    end_by_early_ok(group_.device(), "a host function between collectives had not run");
  std::vector<double> seconds;
  for (size_t i = 1; i <= num_batches; ++i)
    seconds.push_back(std::chrono::duration<double>(times[i] - times[i - 1]).count() / batch);
  if (in_place) fill();  // sums have grown
  std::ranges::sort(seconds);
  return {seconds[seconds.size() / 2], seconds.front()};
}

}  // namespace tessera::host
