#include "launch/fingerprint.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <thread>

#include "base/concat.h"
#include "launch/memory_store.h"
#include "support/expect_error.h"
#include "support/shared_text.h"

namespace tessera::host {
namespace {

using Lists = std::vector<std::vector<Fingerprint>>;

// What each rank threw; empty where it agreed.
std::vector<std::string> agree(const Lists& lists, int64_t timeout_ms = testing::kPatienceMs,
                               const std::set<int>& absent = {}) {
  MemoryStore store;
  std::vector<std::string> errors(lists.size());
  std::vector<std::thread> ranks;
  const int world_size = static_cast<int>(lists.size());
  for (int rank = 0; rank < world_size; ++rank) {
    if (absent.contains(rank)) continue;
    ranks.emplace_back([&, rank] {
      try {
        require_equal_fingerprints(store, rank, world_size, "start", lists[static_cast<size_t>(rank)], timeout_ms,
                                   Log(LogLevel::off));
      } catch (const Error& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (auto& rank : ranks)
    rank.join();
  return errors;
}

void expect_all(const std::vector<std::string>& errors, const std::vector<std::string>& parts) {
  for (const std::string& error : errors) {
    EXPECT_EQ(error, errors[0]);
    for (const std::string& part : parts)
      EXPECT_NE(error.find(part), std::string::npos) << "'" << part << "' is missing in: " << error;
  }
}

const std::vector<Fingerprint> kSame = {{"plugin ddp", "org.tessera.ddp 0.12.0"}, {"lr", "0.1:2"}, {"empty", ""}};

TEST(Agreement, EqualListsPass) {
  for (const std::string& error : agree({kSame, kSame, kSame, kSame}))
    EXPECT_EQ(error, "");
}

TEST(Agreement, OneRankAgreesWithItself) {
  MemoryStore store;
  EXPECT_NO_THROW(require_equal_fingerprints(store, 0, 1, "start", kSame, 0, Log(LogLevel::off)));
}

TEST(Agreement, ADifferenceIsNamedOnAllRanksAlike) {
  auto other = kSame;
  other[1].value = "0.2";
  expect_all(agree({kSame, kSame, other}), {"differ in lr", "rank 0 has '0.1:2'", "rank 2 has '0.2'"});
}

TEST(Agreement, ListsOfOtherLengthsOrNamesDiffer) {
  auto longer = kSame;
  longer.push_back({"plugin tensor", "x"});
  expect_all(agree({kSame, longer}), {"rank 1 has plugin tensor ('x'), but rank 0 does not"});
  expect_all(agree({longer, kSame}), {"rank 0 has plugin tensor ('x'), but rank 1 does not"});
  auto renamed = kSame;
  renamed[0].name = "plugin fsdp";
  expect_all(agree({kSame, renamed}), {"rank 0 has plugin ddp", "rank 1 does not"});
}

TEST(Agreement, LongValuesAreCut) {
  const auto errors = agree({{{"x", std::string(5'000, 'a')}}, {{"x", std::string(5'000, 'b')}}});
  EXPECT_LT(errors[0].size(), 500u);
}

TEST(Agreement, MissingRanksAreNamed) {
  testing::with_short_time(200, [](int64_t timeout_ms) {
    auto errors = agree({kSame, kSame, kSame}, timeout_ms, {1});
    errors.erase(errors.begin() + 1);
    expect_all(errors, {concat("timed out after ", timeout_ms, " ms waiting for rank 1 to start")});
  });
}

// Rank 0 would name the missing ranks. Rank 0 was started for more ranks than the others were: the missing one was
// never meant to come.
TEST(Agreement, ADifferenceIsBlamedBeforeAMissingRank) {
  testing::with_short_time(200, [](int64_t timeout_ms) {
    const std::vector<std::string> errors = agree({{{"ranks", "3"}}, {{"ranks", "2"}}, {}}, timeout_ms, {2});
    for (const int rank : {0, 1})
      EXPECT_EQ(errors[rank], "the ranks differ in ranks: rank 0 has '3' and rank 1 has '2'; make them equal");
  });
}

TEST(Agreement, AMissingRankZeroIsNamedByTheOthers) {
  testing::with_short_time(200, [](int64_t timeout_ms) {
    auto errors = agree({kSame, kSame, kSame, kSame}, timeout_ms, {0, 2});
    EXPECT_EQ(errors[1], concat("timed out after ", timeout_ms, " ms waiting for ranks 0, 2 to start"));
    EXPECT_EQ(errors[3], errors[1]);
  });
}

// The last rank came when the time was just over.
TEST(Agreement, ALateErrorAboutNoRankIsASentence) {
  EXPECT_STREQ(late_error({}, "answer", 5).what(), "timed out after 5 ms waiting for the ranks to answer");
  EXPECT_STREQ(late_error(std::vector{1, 3}, "answer", 5).what(),
               "timed out after 5 ms waiting for ranks 1, 3 to answer");
}

// It came, and stopped before it could decide.
TEST(Agreement, ASilentRankZeroIsNamed) {
  MemoryStore store;
  for (int rank = 0; rank < 3; ++rank)
    store.set("fingerprints/start/" + std::to_string(rank), "");
  testing::expect_error([&] { require_equal_fingerprints(store, 1, 3, "start", {}, 50, Log(LogLevel::off)); },
                        {"timed out after 50 ms waiting for rank 0 to start"});
}

TEST(Agreement, RankZeroSaysForWhomItWaits) {
  testing::SharedText lines;
  std::ostream out(&lines);
  MemoryStore store;
  std::thread late([&] {
    EXPECT_TRUE(lines.wait_for("waiting for rank 1 to start; "));
    require_equal_fingerprints(store, 1, 2, "start", kSame, testing::kPatienceMs, Log(LogLevel::off));
  });
  require_equal_fingerprints(store, 0, 2, "start", kSame, testing::kNeverMs, Log(out, LogLevel::info));
  late.join();
}

TEST(Agreement, EndsAtOnceWhenTheJobHasFailed) {
  MemoryStore store;
  store.close("rank 1 failed: unknown flag --nonsense");
  for (const int rank : {0, 2})
    testing::expect_error(
        [&] { require_equal_fingerprints(store, rank, 3, "start", kSame, testing::kNeverMs, Log(LogLevel::off)); },
        {"rank 1 failed: unknown flag --nonsense"});
}

TEST(Agreement, LibraryEnvironmentHoldsWhatChangesBits) {
  ::setenv("OPENBLAS_CORETYPE", "Haswell", 1);
  ::setenv("UNRELATED_VARIABLE", "x", 1);
  const std::string value = library_environment().value;
  ::unsetenv("OPENBLAS_CORETYPE");
  EXPECT_NE(value.find("OPENBLAS_CORETYPE=Haswell"), std::string::npos);
  EXPECT_EQ(value.find("UNRELATED"), std::string::npos);
  EXPECT_EQ(library_environment().value.find("CORETYPE"), std::string::npos);
}

TEST(Agreement, LibraryEnvironmentIsOfEveryLibrary) {
  for (const std::string prefix : {"OPENBLAS", "OMP", "GOMP", "MKL", "DNNL", "ONEDNN"}) {
    const std::string name = prefix + "_OF_A_TEST";
    ::setenv(name.c_str(), "x", 1);
    EXPECT_NE(library_environment().value.find(name + "=x"), std::string::npos) << name;
    ::unsetenv(name.c_str());
  }
}

}  // namespace
}  // namespace tessera::host
