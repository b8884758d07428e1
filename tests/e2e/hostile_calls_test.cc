// Plugins that leave damage after a call: a changed floating-point state, a second process.
#include "e2e/hostile.h"

namespace tessera::testing {
namespace {

#if defined(__x86_64__)
TEST(HostileCall, ThatChangesHowNumbersAreComputedIsNamed) {
  const auto text = [](const std::string& function) {
    return "in its function " + function + " changes how floating-point numbers are computed";
  };
  expect_named(train_threads("lower-flush"), {"strategy hostile on axis dp", kHostile, text("lower"), "-ffast-math"},
               1);
  for (const std::string fault : {"lower-rounding", "lower-precision", "lower-traps", "lower-flush"})
    expect_named(train_threads(fault), {kHostile, text("lower")}, 1);
  expect_named(train_threads("destroy-flush"), {kHostile, text("destroy")}, 1);
  for (const std::string function : {"submit", "async", "destroy"})
    expect_named(train_wrapped(function + "-flush", kNoFlag, "hostile"),
                 {"hostile-comm.so", text(function == "async" ? "async_error" : function)}, 1);
  expect_named(train_wrapped("submit-rounding", kNoFlag, "hostile-gloo"), {"hostile-gloo-comm.so", text("submit")}, 1);
  for (const std::string function : {"launch", "copy", "close", "describe"})
    expect_named(train_wrapped(function + "-flush", "--device=hostile"), {"hostile-device.so", text(function)});
  expect_named(train_wrapped("synchronize-precision", "--device=hostile"),
               {"hostile-device.so", text("stream_synchronize")}, 1);
}
#endif

// Each forks once.
TEST(HostileCall, ThatForksAndComesBackTwiceEndsTheRun) {
  const std::string text = " forked, and the child returned into the host, where it was ended";
  for (const std::string fault : {"fork", "bare-fork"}) {
    expect_named(info("load-" + fault), {"hostile.so in its constructors (while it is loaded)" + text}, 2);
    expect_named(info("query-" + fault), {"hostile.so in its function tsr_plugin_query_v1" + text}, 2);
    expect_named(train_threads("create-" + fault), {kHostile, "in its function create" + text}, 1);
    expect_named(train_threads("lower-" + fault), {kHostile, "in its function lower" + text}, 1);
  }
  expect_named(train_threads("destroy-fork"), {kHostile, "in its function destroy" + text}, 1);
  expect_named(train_wrapped("submit-fork", kNoFlag, "hostile"), {"hostile-comm.so", "submit" + text}, 1);
  expect_named(train_wrapped("create-fork", kNoFlag, "hostile-gloo"), {"hostile-gloo-comm.so", "create" + text}, 1);
  expect_named(train_wrapped("launch-fork", "--device=hostile"), {"hostile-device.so", "launch" + text}, 1);
}

// ---- work that does not end -----------------------------------------------------------------------------------------

TEST(HostileCall, WhoseWorkDoesNotEndEndsTheRun) {
  with_short_time(1'000, [&](int64_t step_ms) {
    const std::string limit = " within " + std::to_string(step_ms) + " ms, and reported no error";
    for (const std::string comm : {"hostile", "hostile-gloo"}) {
      const auto test = start_wrapped("work-hang", kNoFlag, comm, step_ms, step_ms);
      const auto step = start_wrapped("work-hang-in-step", kNoFlag, comm, 3 * step_ms, step_ms);
      expect_named(test->wait(),
                   {comm + "-comm.so) fails its self-test: ", "has not ended all_reduce over 2 ranks", limit}, 1);
      expect_named(step->wait(), {comm + "-comm.so) has not ended all_reduce ", " on ", limit + ", so the run ends"},
                   1);
    }
  });
}

// ---- tables that are lent to it -------------------------------------------------------------------------------------

TEST(HostileCall, ThatUsesATableAfterItsTimeEndsTheRun) {
  const auto text = [](const std::string& use) { return Parts{kHostile, " used " + use + ", so the run ends"}; };
  expect_named(train_threads("keep-edit"),
               text("collect_garbage of the edit table after its function lower had returned"), 1);
  expect_named(train_threads("keep-sink"), text("add_entry of the layout sink after its function layout had returned"),
               1);
  expect_named(train_threads("keep-query-host"),
               text("log of its tsr_host after its function tsr_plugin_query_v1 had returned"), 1);
  expect_named(train_threads("keep-host"), text("log of its tsr_host after what it had made with it was destroyed"), 1);
}

TEST(HostileCall, ThatUsesATableOnAnotherThreadEndsTheRun) {
  const std::string edit = " used collect_garbage of the edit table on another thread than that of its function lower";
  expect_named(train_threads("keep-thread"), {kHostile, edit + ", so the run ends"}, 1);
  expect_named(run({"plan", "--model=" + golden(), "--batch-size=1", "--seq-len=8", "--mesh=dp=2",
                    std::string("--strategy=dp=") + kHostile},
                   "keep-thread"),
               {kHostile, edit}, 1);
  expect_named(
      run(train_with({"--plugin-dir=" TESSERA_BAD_PLUGIN_DIR, "--offload=hostile"}), "keep-thread"),
      {"hostile-offload.so", " used leave of the offload sink on another thread than that of its function plan"}, 1);
}

}  // namespace
}  // namespace tessera::testing
