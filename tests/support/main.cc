// The main function of every test: googletest's, but that a program of which every test was skipped ends with 77, which
// ctest lists as skipped, and one that a filter leaves without tests fails: its name in the filter is wrong.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {
constexpr int kSkipped = 77;

/// Of several shards the first has a test if any has.
bool is_first_shard() {
  const char* const index = std::getenv("GTEST_SHARD_INDEX");
  return !index || std::string_view(index) == "0";
}

}  // namespace

// The thread sanitizer does not see how threads of OpenMP, which oneDNN's teams are, end before their memory is freed;
// nor the atomics by which oneDNN, which is not built for it, hands a description from its cache to another thread.
#ifdef TESSERA_CHECKS_THREADS
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:_dl_deallocate_tls\nrace:libdnnl.so\nrace:dnnl::primitive_desc_base\n";
}
#endif

// clang's OpenMP does not free what it kept for the largest team once teams have become smaller.
#ifdef TESSERA_CHECKS_ADDRESSES
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libomp.so\n";
}
#endif

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  const auto& tests = *::testing::UnitTest::GetInstance();
  if (tests.test_to_run_count() == 0 && is_first_shard() && !::testing::GTEST_FLAG(list_tests)) {
    std::fprintf(stderr, "no test of this program matches --gtest_filter=%s\n", ::testing::GTEST_FLAG(filter).c_str());
    return 1;
  }
  const bool all_skipped = tests.skipped_test_count() > 0 && tests.skipped_test_count() == tests.test_to_run_count();
  return result == 0 && all_skipped ? kSkipped : result;
}
