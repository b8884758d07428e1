#include "launch/agreement.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "observe/text.h"
#include "tessera/error.hpp"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kReadersMs = 2'000;

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
    throw Error(TSR_E_DATA_LOSS, "a rank's fingerprints cannot be read; do all ranks run the same tessera?");
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
  return value.size() <= kLongest ? concat("'", value, "'") : concat("'", value.substr(0, kLongest), "...'");
}

// The sentence about the first difference, or empty.
std::string first_difference(const std::vector<Fingerprint>& ours, const std::vector<Fingerprint>& theirs,
                             int their_rank) {
  for (size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    if (i >= ours.size() || i >= theirs.size() || ours[i].name != theirs[i].name)
      return concat("rank 0 has ", i < ours.size() ? ours[i].name : "nothing more", " where rank ", their_rank, " has ",
                    i < theirs.size() ? theirs[i].name : "nothing more",
                    "; start all ranks with the same program and flags");
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

struct Verdict {
  std::string sentence;  // why the job ends; empty when it goes on
  int num_present = 0;   // ranks that came, besides rank 0
};

// Rank 0 compares all with its own.
Verdict compare_all(KeyValueStore& store, const std::string& prefix, int world_size,
                    const std::vector<Fingerprint>& fingerprints, int64_t timeout_ms) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  Verdict verdict;
  std::vector<int> missing;
  for (int peer = 1; peer < world_size; ++peer) {
    try {
      const auto theirs = unpack(store.get(concat(prefix, peer), left_ms(deadline)));
      ++verdict.num_present;
      if (verdict.sentence.empty()) verdict.sentence = first_difference(fingerprints, theirs, peer);
    } catch (const Error& error) {
      if (error.code() != TSR_E_DEADLINE) throw;
      missing.push_back(peer);
    }
  }
  if (!missing.empty())
    verdict.sentence = concat("these ranks did not come to compare their settings within ", timeout_ms,
                              " ms: ", rank_list(missing), "; see their logs");
  return verdict;
}

// Rank 0 may serve the store and end next, so it stays until the others have read the verdict.
void wait_for_readers(KeyValueStore& store, const std::string& key, int num_readers) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(kReadersMs);
  while (store.add(key, 0) < num_readers && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

void require_agreement(KeyValueStore& store, int rank, int world_size, const std::string& name,
                       const std::vector<Fingerprint>& fingerprints, int64_t timeout_ms) {
  if (world_size == 1) return;
  const std::string prefix = concat("agreement/", name, "/");
  std::string difference;
  if (rank == 0) {
    const Verdict verdict = compare_all(store, prefix, world_size, fingerprints, timeout_ms);
    difference = verdict.sentence;
    store.set(prefix + "verdict", difference);
    wait_for_readers(store, prefix + "readers", verdict.num_present);
  } else {
    store.set(concat(prefix, rank), pack(fingerprints));
    difference = store.get(prefix + "verdict", 2 * timeout_ms);  // rank 0's wait may have begun later
    try {
      store.add(prefix + "readers", 1);
    } catch (const Error& error) {
      if (error.code() != TSR_E_UNAVAILABLE) throw;  // rank 0 counted it and ended before it could answer
    }
  }
  if (!difference.empty()) throw Error(TSR_E_FAILED_PRECONDITION, difference);
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
  return {"the environment of number libraries", value};
}

}  // namespace tessera
