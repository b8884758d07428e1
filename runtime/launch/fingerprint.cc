// All ranks put their lists into the store; rank 0 compares each with its own and publishes a verdict, so that all
// ranks throw the same error:
//
//     rank r   set fingerprints/<purpose>/<r>       its list
//     rank 0   get all of them, set .../verdict   "" or the first difference, or which ranks are missing
//     rank r   get .../verdict, add 1 to .../readers
//     rank 0   waits for the readers: it may serve the store and end next

#include "launch/fingerprint.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <sstream>
#include <thread>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using Clock = std::chrono::steady_clock;

// For the others to read the verdict. Longer would delay an end for ranks that have died.
constexpr int64_t kReadersMs = 300;
constexpr int64_t kLogMs = 2'000;  // between two lines about the ranks that rank 0 waits for
constexpr int64_t kSlackMs = 200;  // for rank 0 to publish which ranks are missing, before the others look

// Lists travel as "<length>:<text>" one after the other.
std::string pack(const std::vector<Fingerprint>& fingerprints) {
  std::string packed;
  for (const Fingerprint& fingerprint : fingerprints)
    for (const std::string* text : {&fingerprint.name, &fingerprint.value})
      packed += concat(text->size(), ":", *text);
  return packed;
}

std::string take_text(std::string_view& packed) {
  const size_t colon = packed.find(':');
  if (colon == std::string_view::npos || colon > 12 || packed.find_first_not_of("0123456789") != colon)
    throw Error(TSR_E_DATA_LOSS, "the settings of a rank cannot be read; run the same version of tessera on all ranks");
  const size_t length = std::stoull(std::string(packed.substr(0, colon)));
  std::string text(packed.substr(colon + 1, length));
  packed.remove_prefix(std::min(packed.size(), colon + 1 + length));
  return text;
}

std::vector<Fingerprint> unpack(std::string_view packed) {
  std::vector<Fingerprint> fingerprints;
  while (!packed.empty()) {
    Fingerprint fingerprint;
    fingerprint.name = take_text(packed);
    fingerprint.value = take_text(packed);
    fingerprints.push_back(std::move(fingerprint));
  }
  return fingerprints;
}

std::string shown(const std::string& value) {
  constexpr size_t kLongest = 120;
  if (value.empty()) return "nothing";
  return value.size() <= kLongest ? concat("'", value, "'") : concat("'", value.substr(0, kLongest), "...'");
}

/// A sentence about the first difference; empty if there is none.
std::string first_difference(const std::vector<Fingerprint>& ours, const std::vector<Fingerprint>& theirs,
                             int their_rank) {
  const auto lacks = [](const std::vector<Fingerprint>& list, const Fingerprint& one) {
    return std::ranges::find(list, one.name, &Fingerprint::name) == list.end();
  };
  const auto only = [](int rank, const Fingerprint& one, int other) {
    return concat("rank ", rank, " has ", one.name, " (", shown(one.value), "), but rank ", other,
                  " does not; start all ranks with the same program and flags");
  };
  for (size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    if (i < ours.size() && lacks(theirs, ours[i])) return only(0, ours[i], their_rank);
    if (i < theirs.size() && lacks(ours, theirs[i])) return only(their_rank, theirs[i], 0);
    if (i >= ours.size() || i >= theirs.size() || ours[i].name != theirs[i].name)
      return concat("rank 0 and rank ", their_rank, " have their settings in different orders; start all ranks with ",
                    "the same program and flags");
    if (ours[i].value != theirs[i].value)
      return concat("the ranks differ in ", ours[i].name, ": rank 0 has ", shown(ours[i].value), " and rank ",
                    their_rank, " has ", shown(theirs[i].value), "; make them equal");
  }
  return "";
}

int64_t left_ms(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return std::max<int64_t>(0, left.count());
}

/// Without names where all have come meanwhile.
std::string late_ranks(std::span<const int> ranks) {
  return ranks.empty() ? "the ranks" : ranks_text(ranks);
}

/// What rank 0 found; in the store "<code> <rank it is about> <sentence>". With an empty sentence the job goes on.
struct Verdict {
  int code = TSR_E_FAILED_PRECONDITION;
  int about = -1;
  std::string sentence;
};

std::string pack(const Verdict& verdict) {
  return concat(verdict.code, ' ', verdict.about, ' ', verdict.sentence);
}

Verdict unpack_verdict(const std::string& packed) {
  Verdict verdict;
  std::istringstream in(packed);
  in >> verdict.code >> verdict.about;
  in.get();
  std::getline(in, verdict.sentence, '\0');
  return verdict;
}

/// One rank's part in one comparison.
class Comparison {
 public:
  Comparison(KeyValueStore& store, int world_size, const std::string& purpose, int64_t timeout_ms, const Log& log)
      : store_(store),
        world_size_(world_size),
        purpose_(purpose),
        prefix_(concat("fingerprints/", purpose, "/")),
        timeout_ms_(timeout_ms),
        log_(log) {}

  void come(int rank, const std::vector<Fingerprint>& fingerprints) {
    store_.set(concat(prefix_, rank), pack(fingerprints));
  }

  /// Rank 0 compares all lists with its own, and publishes the verdict.
  Verdict decide(const std::vector<Fingerprint>& fingerprints) {
    const Verdict verdict = compare_all(fingerprints);
    store_.set(prefix_ + "verdict", pack(verdict));
    wait_for_readers(world_size_ - 1 - static_cast<int>(missing().size()));
    return verdict;
  }

  /// The other ranks read the verdict. Without one, the missing ranks are looked up: rank 0 may only be waiting for
  /// them.
  Verdict hear() {
    std::string packed;
    try {
      packed = store_.get(prefix_ + "verdict", timeout_ms_ + kSlackMs);
    } catch (const Error& error) {
      if (error.code() != TSR_E_DEADLINE) throw;
      const std::vector<int> absent = missing();
      return late(absent.empty() ? std::vector{0} : absent);
    }
    try {
      store_.add(prefix_ + "readers", 1);
    } catch (const Error& error) {
      if (error.code() != TSR_E_UNAVAILABLE) throw;  // rank 0 counted it and ended before it could answer
    }
    return unpack_verdict(packed);
  }

 private:
  Verdict compare_all(const std::vector<Fingerprint>& fingerprints) {
    const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms_);
    Verdict verdict;
    // After a difference the other lists are still waited for, so that all ranks are there to read the verdict.
    for (int peer = 1; peer < world_size_; ++peer) {
      const auto theirs = wait_for(peer, deadline);
      if (!theirs) return verdict.sentence.empty() ? late(missing()) : verdict;
      if (!verdict.sentence.empty()) continue;
      verdict.sentence = first_difference(fingerprints, *theirs, peer);
      if (!verdict.sentence.empty()) verdict.about = peer;
    }
    return verdict;
  }

  std::optional<std::vector<Fingerprint>> wait_for(int peer, Clock::time_point deadline) {
    for (;;) {
      const int64_t wait_ms = std::min(left_ms(deadline), kLogMs);
      try {
        return unpack(store_.get(concat(prefix_, peer), wait_ms));
      } catch (const Error& error) {
        if (error.code() != TSR_E_DEADLINE) throw;
      }
      if (wait_ms < kLogMs) return std::nullopt;
      log_.info("waiting for ", late_ranks(missing()), " to ", purpose_, "; ", left_ms(deadline) / 1000, " s left");
    }
  }

  std::vector<int> missing() { return missing_ranks(store_, prefix_, world_size_); }

  Verdict late(const std::vector<int>& ranks) const {
    const Error error = late_error(ranks, purpose_, timeout_ms_);
    return {error.code(), error.rank(), error.what()};
  }

  // Rank 0 may serve the store and end next, so it stays until the others have read the verdict.
  void wait_for_readers(int num_readers) {
    const auto deadline = Clock::now() + std::chrono::milliseconds(kReadersMs);
    while (store_.add(prefix_ + "readers", 0) < num_readers && Clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  KeyValueStore& store_;
  const int world_size_;
  const std::string purpose_, prefix_;
  const int64_t timeout_ms_;
  const Log& log_;
};

}  // namespace

std::vector<int> missing_ranks(KeyValueStore& store, const std::string& prefix, int world_size) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    try {
      store.get(concat(prefix, rank), 0);
    } catch (const Error& error) {
      if (error.code() != TSR_E_DEADLINE) throw;
      ranks.push_back(rank);
    }
  }
  return ranks;
}

Error late_error(std::span<const int> ranks, const std::string& purpose, int64_t timeout_ms) {
  return {TSR_E_DEADLINE,
          concat("timed out after ", timeout_ms, " ms waiting for ", late_ranks(ranks), " to ", purpose),
          ranks.empty() ? -1 : ranks.front()};
}

void require_equal_fingerprints(KeyValueStore& store, int rank, int world_size, const std::string& purpose,
                                const std::vector<Fingerprint>& fingerprints, int64_t timeout_ms, const Log& log) {
  if (world_size == 1) return;
  Comparison comparison(store, world_size, purpose, timeout_ms, log);
  comparison.come(rank, fingerprints);
  const Verdict verdict = rank == 0 ? comparison.decide(fingerprints) : comparison.hear();
  if (!verdict.sentence.empty()) throw Error(static_cast<tsr_status>(verdict.code), verdict.sentence, verdict.about);
}

Fingerprint library_environment() {
  std::vector<std::string> settings;
  for (char** entry = environ; *entry; ++entry)
    for (const char* prefix : {"OPENBLAS_", "OMP_", "GOMP_", "MKL_", "DNNL_", "ONEDNN_"})
      if (std::strncmp(*entry, prefix, std::strlen(prefix)) == 0) settings.emplace_back(*entry);
  std::sort(settings.begin(), settings.end());
  std::string value;
  for (const std::string& setting : settings)
    value += (value.empty() ? "" : " ") + setting;
  return {"the numeric library environment (OMP_*, MKL_*, ...)", value};
}

}  // namespace tessera::host
