// The guard of calls into plugins, with functions of this test as a plugin's. What ends a process is tested by
// tests/e2e/hostile_plugins_test.cc.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>

#include <cfenv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "guard/call_watch.h"
#include "guard/crash_report.h"
#include "guard/known_functions.h"
#include "guard/lent_table.h"
#include "guard/plugin_calls.h"
#include "guard/process_state.h"
#include "guard/readable.h"
#include "guard/writable.h"
#include "support/child_process.h"
#include "support/expect_error.h"
#include "support/patience.h"

namespace tessera::host {
namespace {

using testing::expect_error;

const void* seen_inside = nullptr;

tsr_status note_function(int* calls, tsr_error*) noexcept {
  ++*calls;
  seen_inside = this_thread_calls.function();
  return TSR_OK;
}
tsr_status fail_silently(tsr_error*) noexcept {
  return TSR_E_UNKNOWN;
}
tsr_status fail_as(const char* domain, tsr_error* err) noexcept {
  fill_error(err, TSR_E_UNAVAILABLE, domain, "no cable");
  return TSR_E_UNAVAILABLE;
}
tsr_status throw_text(tsr_error*) {
  throw std::runtime_error("some text");
}
struct WithoutText : std::exception {
  const char* what() const noexcept override { return nullptr; }
};
tsr_status throw_nothing(tsr_error*) {
  throw WithoutText();
}
tsr_status throw_long_text(tsr_error*) {
  throw std::runtime_error(std::string(1'000'000, 'a'));
}
void throw_at_end() {
  throw std::runtime_error("late");
}
tsr_status throw_number(tsr_error*) {
  throw 7;
}
tsr_status make_nothing(int** made, tsr_error*) noexcept {
  *made = nullptr;
  return TSR_OK;
}
tsr_status round_up(tsr_error*) noexcept {
  fesetround(FE_UPWARD);
  return TSR_OK;
}
void round_up_and_throw() {
  fesetround(FE_UPWARD);
  throw 7;
}
tsr_status call_again(int depth, tsr_error* err) {
  if (depth > 0) call(call_again, depth - 1);
  return fail_silently(err);
}

class Guard : public ::testing::Test {
 protected:
  Guard() {
    const NamedFunction functions[] = {
        {address_of(note_function), "note"},    {address_of(fail_silently), "fail"},
        {address_of(throw_text), "throw_text"}, {address_of(throw_number), "throw_number"},
        {address_of(make_nothing), "make"},     {address_of(round_up), "round_up"},
        {address_of(fail_as), "fail_as"},       {address_of(throw_at_end), "end"}};
    know_functions("sample (/s.so)", functions);
  }
};

TEST_F(Guard, KnowsWhichFunctionAThreadIsIn) {
  int calls = 0;
  EXPECT_EQ(this_thread_calls.function(), nullptr);
  call(note_function, &calls);
  EXPECT_EQ(seen_inside, address_of(note_function));
  EXPECT_EQ(this_thread_calls.function(), nullptr);
  std::thread([&] { call(note_function, &calls); }).join();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(call_text(address_of(note_function)), "the plugin sample (/s.so) in its function note");
  EXPECT_EQ(call_text(&calls), "a plugin");
}

// A process may run many jobs, each of which loads its plugins.
TEST_F(Guard, HasOneAddressForAPlaceOfAPlugin) {
  const void* constructors = address_for("sample (/s.so)", "its constructors");
  EXPECT_EQ(call_text(constructors), "the plugin sample (/s.so) in its constructors");
  EXPECT_EQ(address_for("sample (/s.so)", "its constructors"), constructors);
  EXPECT_NE(address_for("sample (/s.so)", "its tables"), constructors);
  EXPECT_NE(address_for("other (/o.so)", "its constructors"), constructors);
}

TEST_F(Guard, NamesTheFunctionOfAnErrorWithoutText) {
  expect_error([] { call(fail_silently); },
               {"status -2 without a message from the plugin sample (/s.so) in its function fail"});
}

TEST_F(Guard, NamesThePluginOfAnErrorInAnotherName) {
  EXPECT_EQ(expect_error([] { call(fail_as, "sample"); }, {}), "[sample] no cable");
  EXPECT_EQ(expect_error([] { call(fail_as, "s"); }, {}), "[s] no cable");  // its file
  expect_error([] { call(fail_as, "host"); },
               {"[host] no cable (from the plugin sample (/s.so) in its function fail_as)"});
  expect_error([] { call(fail_as, ""); }, {"no cable (from the plugin sample (/s.so) in its function fail_as)"});
}

TEST_F(Guard, CatchesWhatEscapes) {
  expect_error([] { call(throw_text); },
               {"an exception (some text) has left the plugin sample (/s.so) in its function throw_text"});
  expect_error([] { call(throw_number); },
               {"an exception has left the plugin sample (/s.so) in its function throw_number"});
  expect_error([] { call(throw_nothing); }, {"an exception has left a plugin"});
  EXPECT_LT(expect_error([] { call(throw_long_text); }, {"an exception (aaa", "aaa...) has left a plugin"}).size(),
            500u);
  EXPECT_EQ(this_thread_calls.function(), nullptr);
}

TEST_F(Guard, RefusesOkWithoutAnObject) {
  expect_error([] { made_by<int>(make_nothing); }, {"in its function make returned OK and no object"});
}

TEST_F(Guard, RestoresHowNumbersAreComputedAndNamesWhoChangesIt) {
  expect_error([] { call(round_up); },
               {"the plugin sample (/s.so) in its function round_up changes how floating-point numbers are computed"});
  EXPECT_EQ(fegetround(), FE_TONEAREST);
  EXPECT_EQ(this_thread_calls.function(), nullptr);
  expect_error([] { enter(round_up_and_throw); }, {"an exception has left"});
  EXPECT_EQ(fegetround(), FE_TONEAREST);
  fesetround(FE_UPWARD);
  EXPECT_EQ(enter(round_up, nullptr), TSR_OK) << "it is as it was";
  fesetround(FE_TONEAREST);
}

/// A table that is lent to note_function.
struct Counter {
  void* ctx;
  void (*count)(void* ctx) noexcept;
};
constexpr Counter kCounter{nullptr, [](void* ctx) noexcept { ++borrowed<int>(ctx, "count"); }};

TEST_F(Guard, LendsATable) {
  int number = 0;
  const LentTable lent(kCounter, &number, "the counter", address_of(note_function));
  lent.table().count(lent.table().ctx);
  EXPECT_EQ(number, 1);
}

TEST_F(Guard, EndsTheRunWhenATableIsUsedThatIsNotLent) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  int number = 0;
  const auto use = [](const Counter& counter) { counter.count(counter.ctx); };
  const Counter* kept = nullptr;
  {
    const LentTable lent(kCounter, &number, "the counter", address_of(note_function));
    kept = &lent.table();
    EXPECT_EXIT(
        std::thread([&] { use(*kept); }).join(), ::testing::ExitedWithCode(1),
        "the plugin sample \\(/s.so\\) used count of the counter on another thread than that of its function note, "
        "so the run ends");
  }
  EXPECT_EXIT(use(*kept), ::testing::ExitedWithCode(1),
              "used count of the counter after its function note had returned, so the run ends");
  {
    const LentTable lent(kCounter, &number, "the counter", address_of(note_function), "the end");
    kept = &lent.table();
    std::thread([&] { use(*kept); }).join();
  }
  EXPECT_EXIT(use(*kept), ::testing::ExitedWithCode(1), "used count of the counter after the end, so the run ends");
  EXPECT_EQ(number, 1);
}

/// Ranks that are threads may find the same fault at the same time. On one core, and once it has spoken at the lowest
/// priority, the first thread ends the process only after the others have had their turn.
TEST_F(Guard, EndsTheRunWithTheWordsOfOneThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end_by_many = [] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(::sched_getcpu()), &one);
    ::sched_setaffinity(0, sizeof one, &one);
    const LastWordsScope words([](const std::string&) {
      std::fputs("said\n", stderr);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until all are there
      const sched_param lowest{};
      ::sched_setscheduler(0, SCHED_IDLE, &lowest);
    });
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([] { end_run("a fault"); });
    for (std::thread& thread : threads)
      thread.join();
  };
  EXPECT_EXIT(end_by_many(), ::testing::ExitedWithCode(1), ::testing::Eq("said\n"));
}

TEST_F(Guard, EndsTheRunWithTheErrorOfTheRankThatFailedFirst) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end_after_error = [](int rank) {
    note_run_error(1, "no cable");
    note_run_error(2, "rank 1 has gone");
    end_run("a fault", rank);
  };
  EXPECT_EXIT(end_after_error(0), ::testing::ExitedWithCode(1),
              ::testing::Eq("tessera: rank 1: no cable; after that rank 0: a fault\n"));
  EXPECT_EXIT(end_after_error(1), ::testing::ExitedWithCode(1), ::testing::Eq("tessera: rank 1: a fault\n"));
}

TEST_F(Guard, EndsTheRunWithTheErrorBeforeThatOfAnEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end_after_error = [] {
    note_error("no cable");
    end_with(throw_at_end);
  };
  EXPECT_EXIT(end_after_error(), ::testing::ExitedWithCode(1),
              ::testing::Eq("tessera: no cable; after that an exception (late) has left the plugin sample (/s.so) in "
                            "its function end; a plugin returns a status instead\n"));
}

TEST_F(Guard, TakesCallsOfAnyDepth) {
  expect_error([] { call(call_again, 10); }, {"without a message"});
  EXPECT_EQ(this_thread_calls.depth, 0u);
}

TEST(Readable, TellsMemoryFromNothing) {
  const int value = 1;
  EXPECT_TRUE(is_readable(&value, sizeof value));
  EXPECT_TRUE(is_readable(nullptr, 0));
  EXPECT_FALSE(is_readable(nullptr, 1));
  EXPECT_FALSE(is_readable(reinterpret_cast<const void*>(64), 4));
  EXPECT_FALSE(is_readable(&value, UINT64_MAX));
  // 200 pages, of which the last is gone.
  constexpr size_t kPage = 4096, kNumPages = 200;
  auto* pages =
      static_cast<char*>(mmap(nullptr, kPage * kNumPages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_TRUE(is_readable(pages, kPage * kNumPages));
  munmap(pages + kPage * (kNumPages - 1), kPage);
  EXPECT_TRUE(is_readable(pages, kPage * (kNumPages - 1)));
  EXPECT_FALSE(is_readable(pages, kPage * (kNumPages - 1) + 1));
  EXPECT_FALSE(is_readable(pages + 100, kPage * kNumPages));
  munmap(pages, kPage * (kNumPages - 1));
}

// With the question to the system, and, where there is a handler of crashes, without it.
TEST(Readable, SeesWhatAPluginGivesBackInTheMiddleOfACall) {
  const auto is_asked_anew = [] {
    auto* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const PluginCall here(page);
    const bool was_there = is_readable(page, 4096) && !is_readable(reinterpret_cast<const void*>(64), 4);
    mprotect(page, 4096, PROT_NONE);
    const bool was_protected = !is_readable(page, 4096);
    munmap(page, 4096);
    return was_there && was_protected && !is_readable(page, 4096);
  };
  EXPECT_TRUE(is_asked_anew());
  testing::ChildProcess child([&](const testing::ChildProcess::Say& say) {
    report_crashes();
    say(is_asked_anew() ? "asked anew" : "remembered");
    end_of_program();
  });
  EXPECT_EQ(child.next_line(testing::kPatienceMs), "asked anew");
}

TEST(Writable, IsMemoryMappedForWritingFromEndToEnd) {
  constexpr size_t kPage = 4096, kNumPages = 9;
  auto* pages =
      static_cast<char*>(mmap(nullptr, kPage * kNumPages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_TRUE(is_writable(pages, kPage * kNumPages));
  EXPECT_TRUE(is_writable(pages + 5, 0));
  EXPECT_FALSE(is_writable(pages, UINT64_MAX));
  EXPECT_FALSE(is_writable(nullptr, 1));
  mprotect(pages + 4 * kPage, kPage, PROT_READ);
  EXPECT_FALSE(is_writable(pages, kPage * kNumPages));
  EXPECT_TRUE(is_writable(pages, 4 * kPage));
  EXPECT_FALSE(is_writable(pages + kPage, 3 * kPage + 1));
  EXPECT_TRUE(is_writable(pages + 5 * kPage + 1, 4 * kPage - 1));
  munmap(pages + 7 * kPage, kPage);
  EXPECT_FALSE(is_writable(pages + 5 * kPage, 4 * kPage));
  munmap(pages, 7 * kPage);
  munmap(pages + 8 * kPage, kPage);
}

TEST(ProcessState, RestoresNothingWhereNothingHasChanged) {
  ProcessState state;
  volatile double third = 1;
  third = third / 3;  // sets a sticky flag
  EXPECT_EQ(state.restore(), "");
}

TEST(ProcessState, RestoresWhatHasChanged) {
  const std::filesystem::path folder = std::filesystem::current_path();
  struct sigaction before {};
  sigaction(SIGUSR2, nullptr, &before);
  ProcessState state;
  std::filesystem::current_path("/");
  signal(SIGUSR2, SIG_IGN);
  fesetround(FE_UPWARD);
  const std::string changes = state.restore();
  for (const char* part : {"how floating-point numbers are computed", "what SIGUSR2 does", "the current folder"})
    EXPECT_NE(changes.find(part), std::string::npos) << changes;
  struct sigaction after {};
  sigaction(SIGUSR2, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
  EXPECT_EQ(std::filesystem::current_path(), folder);
  EXPECT_EQ(fegetround(), FE_TONEAREST);
  EXPECT_EQ(state.restore(), "");
}

}  // namespace
}  // namespace tessera::host
