// Plugins that leave damage after a call: a changed floating-point state, a second process.
#include "e2e/hostile.h"
#include "support/paths.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

/// The losses in the log.
Parts losses_of(const CommandResult& run) {
  Parts losses;
  const std::string text = run.out + run.err;
  for (size_t at = text.find("loss  "); at != std::string::npos; at = text.find("loss  ", at + 1))
    losses.push_back(text.substr(at, 12));
  EXPECT_FALSE(losses.empty()) << text;
  return losses;
}

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

// ---- what it does to the process ------------------------------------------------------------------------------------

TEST(HostileCall, ThatChangesTheProcessIsNamed) {
  const std::map<std::string, std::string> sentences = {
      {"signals", "changes what SIGINT does"},
      {"mask", "changes whether the calling thread blocks SIGUSR2"},
      {"handler-stack", "changes the stack of the calling thread's signal handlers"},
      {"timer", "sets a timer of the process"},
      {"limits", "changes a limit of the process"},
      {"locale", "changes the locale"},
      {"folder", "changes the current folder"},
      {"umask", "changes the permissions of files"},
      {"output", "closes standard output"},
      {"close-files", "closes files of the host"},
  };
  for (const auto& [fault, sentence] : sentences) {
    const std::string in_lower = "in its function lower " + sentence;
    expect_named(train_threads("lower-" + fault), {"strategy hostile on axis dp", kHostile, in_lower});
    expect_named(train_threads("variants-" + fault), {kHostile, "in its function num_variants " + sentence});
    // What one rank has closed, another may have opened something else for by the time it looks.
    const std::string seen = fault == "output" ? "standard output" : sentence;
    expect_named(train_wrapped("create-" + fault, kNoFlag, "hostile"),
                 {"hostile-comm.so", "in its function create", seen}, 1);
  }
  for (const std::string fault : {"mask", "handler-stack", "timer", "limits", "close-files"})
    expect_named(info("load-" + fault), {"in its constructors (while it is loaded) " + sentences.at(fault)}, 2);
  expect_named(train_wrapped("create-close-files", kNoFlag, "hostile-gloo"),
               {"hostile-gloo-comm.so", "closes files of the host"}, 1);
  EXPECT_NE(train_wrapped("submit-close-files", kNoFlag, "hostile").exit_code, 0);
}

// A step is not compared with what was before: a timer ends nothing there, nor does a cancelled thread, and the end
// does not wait for the C library's files.
TEST(HostileCall, ThatMeansToEndTheProcessLaterDoesNot) {
  const CommandResult good = train_wrapped("", "--log-level=info", "hostile");
  ASSERT_EQ(good.exit_code, 0) << good.err;
  std::vector<std::string> faults = {"step-timer", "step-cancel", "step-environment"};
#ifndef TESSERA_IS_SANITIZED  // the end of the process is that of the C library, which does wait
  faults.push_back("step-hold-output");
#endif
  for (const std::string& fault : faults) {
    const CommandResult run = train_wrapped(fault, "--log-level=info", "hostile");
    EXPECT_EQ(run.exit_code, 0) << fault << run.err;
    EXPECT_EQ(losses_of(run), losses_of(good)) << fault;
  }
}

// What a step changes of the process is looked for where files are written; the way in which a stream's thread computes
// at each mark of the clocks (exec/watch).
TEST(HostileCall, ThatChangesWhatAStepDependsOnEndsTheRun) {
  const TempFolder folder;
  const Parts flags = {"--nproc=2",      "--comm=hostile", "--plugin-dir=" + binary_dir("tests/bad_plugins"),
                       "--strategy=ddp", "--save-every=1", "--save=" + folder.path("saved")};
  const std::string path = "in a step, or on a thread of its own, a plugin changes ";
  expect_named(run(train_with(flags), "step-folder"), {path + "the current folder"}, 1);
  // In the self-test: a rank may see it whose own call of the plugin is guarded meanwhile.
  expect_named(run(train_with(flags), "submit-folder"), {"changes the current folder"}, 1);
  expect_named(run(train_with(flags), "step-umask"), {path + "the permissions of files"}, 1);
  expect_named(run(train_with(flags), "step-send-term"), {"has sent SIGTERM to itself", "only a plugin"}, 1);
  const std::string sent = "has sent SIGTERM to ";
  expect_named(train_wrapped("step-send-term-to-parent", kNoFlag, "hostile"), {sent, "which watches the run"}, 1);
  expect_named(train_wrapped("step-send-term-to-parent", kNoFlag, "hostile-gloo"),
               {sent + "its launcher, which only a plugin can have done"}, 1);
#if defined(__x86_64__)
  expect_named(train_wrapped("work-rounding", kNoFlag, "hostile"),
               {"work of a plugin on a stream", "changes how floating-point numbers are computed there"}, 1);
#endif
}

TEST(HostileCall, ThatKeepsItsThreadFromEndingEndsTheRun) {
  for (const char* place : {"submit", "create"})
    expect_named(train_wrapped(std::string(place) + "-thread-data", kNoFlag, "hostile"),
                 {"the thread of a rank has not ended", "a destructor of thread-local data"}, 1);
}

TEST(HostileCall, ThatClosesAllFilesIsToldByTheParent) {
#ifndef TESSERA_IS_SANITIZED
  expect_named(train_wrapped("step-close-all", kNoFlag, "hostile"), {"or has closed its standard error"});
#endif
  expect_named(train_threads("lower-kill-in-real-time"), {"was killed by signal 64: by a plugin, by hand"}, 128 + 64);
}

TEST(HostileCall, ThatCrashesWhereNothingIsKnownIsNamed) {
  const std::string own_thread = "crashed on a thread of its own (SIGABRT)";
  expect_named(train_threads("lower-throwing-thread"), {kHostile, own_thread}, by_signal(6));
  expect_named(train_threads("lower-aborting-thread"), {kHostile, own_thread}, by_signal(6));
  expect_named(train_threads("lower-trap"), {kHostile, "crashed in its function lower (SIGTRAP)"}, by_signal(5));
  expect_named(train_threads("lower-protect-view"), {kHostile, "in its function lower"}, by_signal(11));
#ifndef TESSERA_IS_SANITIZED  // whose own longjmp and _exit they are there
  expect_named(train_threads("lower-jump"), {kHostile, "crashed in its function lower"});
  expect_named(train_threads("lower-exit-at-once-with-7"), {kHostile, "lower called exit, so the run ends"}, 1);
  expect_named(train_wrapped("submit-exit-at-once-with-7", kNoFlag, "hostile-gloo"),
               {"hostile-gloo-comm.so) in its function submit called exit"}, 1);
#endif
}

#ifndef TESSERA_IS_SANITIZED  // which reports the same memory freed twice in its own words
// Streams and ranks that share one would race without a word. For these ranks are processes: as threads, one would
// destroy what the other is given.
TEST(HostileCall, ThatReturnsOneObjectTwiceIsNamed) {
  const std::string object = " returned an object that it has returned before, and that is still in use";
  expect_named(train_wrapped("create-twice", kNoFlag, "hostile-gloo"),
               {"hostile-gloo-comm.so) in its function create" + object}, 1);
  for (const std::string kind : {"stream", "event"})
    expect_named(train_wrapped(kind + "-twice", "--device=hostile", "gloo"),
                 {"hostile-device.so) in its function " + kind + "_create" + object}, 1);
  expect_named(train_wrapped("open-twice", "--device=hostile"), {"hostile-device.so) in its function open" + object},
               1);
  expect_named(train_wrapped("allocate-twice", "--device=hostile"),
               {"in its function allocate returned memory that it has returned before"}, 1);
}
#endif

TEST(HostileCall, WhoseAnswersChangeIsTakenAtItsFirst) {
  const CommandResult good = train_wrapped("", "--log-level=info", "hostile");
  const CommandResult less = train_wrapped("caps-less-later", "--log-level=info", "hostile");
  EXPECT_EQ(less.exit_code, 0) << less.err;
  EXPECT_EQ(losses_of(less), losses_of(good));
  // A strategy that does nothing is refused for that, and not for more programs than it has said first.
  const CommandResult growing = train_threads("variants-growing");
  EXPECT_EQ(growing.exit_code, train_threads("").exit_code);
  EXPECT_EQ(growing.err, train_threads("").err);
}

TEST(HostileCall, WhoseMemoryIsNotAlignedIsNamed) {
  expect_named(train_wrapped("allocate-odd", "--device=hostile"),
               {"hostile-device.so", "in its function allocate returned memory that is not 4096-aligned"}, 1);
}

TEST(HostileCall, WhoseWorkspaceIsAbsurdIsNamed) {
  expect_named(train_wrapped("describe-absurd", kNoFlag, "hostile"),
               {"hostile-comm.so", "in its function describe returned 1125899906842624 bytes of workspace for ",
                " over 2 ranks; the limit is "},
               1);
}

// A host arena that is shorter than asked for, or cannot be written to, would end the run where it is used, in the
// host.
TEST(HostileCall, WhoseHostMemoryIsNotThereIsNamed) {
  for (const char* fault : {"allocate-short", "allocate-read-only"})
    expect_named(train_wrapped(fault, "--device=hostile"),
                 {"hostile-device.so", "in its function allocate returned host memory that is not "}, 1);
}

// A communicator would crash in it.
TEST(HostileCall, WhoseMemoryIsNotThatOfItsStreamKindIsNamed) {
  expect_named(train_wrapped("allocate-own", "--device=hostile"),
               {"hostile-device.so",
                "in its function allocate returned device memory that the host cannot write to; by "
                "its stream kind, cpu.queue, it is the process's own"},
               1);
}

TEST(HostileCall, WhoseDeviceIsGoneEndsTheRun) {
  expect_named(train_wrapped("synchronize-gone", "--device=hostile"), {"the board has left the machine"}, 1);
}

// ---- work that does not end -----------------------------------------------------------------------------------------

TEST(HostileCall, WhoseWorkDoesNotEndEndsTheRun) {
  with_short_time(1'000, [&](int64_t step_ms) {
    const std::string limit = " within " + std::to_string(step_ms) + " ms, and reported no error";
    for (const std::string comm : {"hostile", "hostile-gloo"}) {
      const auto test = start_wrapped("work-hang", kNoFlag, comm, step_ms, step_ms);
      const auto step = start_wrapped("work-hang-in-step", kNoFlag, comm, 3 * step_ms, step_ms);
      const auto bench =
          start({"bench", "comm", "--nproc=2", "--comm=" + comm, "--min-size=1KiB", "--max-size=1KiB",
                 "--plugin-dir=" + binary_dir("tests/bad_plugins"), "--timeout-ms=" + std::to_string(step_ms)},
                "work-hang");
      expect_named(test->wait(),
                   {comm + "-comm.so) fails its self-test: ", "has not ended all_reduce over 2 ranks", limit}, 1);
      expect_named(step->wait(), {comm + "-comm.so) has not ended all_reduce ", " on ", limit + ", so the run ends"},
                   1);
      expect_named(bench->wait(),
                   {comm + "-comm.so) has not ended bench on world (its collective 0)", limit + ", so the run ends"},
                   1);
    }
  });
}

// The self-test finds functions that never run; these do in it, and not afterwards.
TEST(HostileCall, WhoseFunctionsNeverRunIsNamed) {
  const std::string head =
      "hostile-device.so) in its function stream_synchronize returned OK before its work had ended: ";
  const Parts device = {"--device=hostile", "--plugin-dir=" + binary_dir("tests/bad_plugins")};
  expect_named(run(train_with(device), "function-never-later"), {head, " host functions on its streams had not run"},
               1);
  Parts bench = {"bench", "device", "--only=products", "--min-size=64", "--max-size=64"};
  bench.insert(bench.end(), device.begin(), device.end());
  expect_named(run(bench, "function-never-later"), {head + "a host function between launches had not run"}, 1);
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
#ifdef TESSERA_IS_SANITIZED  // elsewhere the destructor that does it never runs
  expect_named(train_threads("keep-host"), text("log of its tsr_host after what it had made with it was destroyed"), 1);
#endif
}

TEST(HostileCall, ThatUsesATableOnAnotherThreadEndsTheRun) {
  const std::string edit = " used collect_garbage of the edit table on another thread than that of its function lower";
  expect_named(train_threads("keep-thread"), {kHostile, edit + ", so the run ends"}, 1);
  expect_named(run({"plan", "--model=" + golden(), "--batch-size=1", "--seq-len=8", "--mesh=dp=2",
                    std::string("--strategy=dp=") + kHostile},
                   "keep-thread"),
               {kHostile, edit}, 1);
  expect_named(
      run(train_with({"--plugin-dir=" + binary_dir("tests/bad_plugins"), "--offload=hostile"}), "keep-thread"),
      {"hostile-offload.so", " used leave of the offload sink on another thread than that of its function plan"}, 1);
}

}  // namespace
}  // namespace tessera::testing
