// Plugins that crash, exit, hang, throw, change the process or hand over pointers that lie: each run ends by itself,
// not with exit code 0, and says which plugin and which of its functions it was. What they do,
// tests/abi/bad_plugins/faults.h says; these tests name it in an environment variable.
#include <gtest/gtest.h>

#include <memory>

#include "e2e/hostile.h"
#include "support/free_port.h"
#include "support/paths.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

// ---- while a plugin is loaded and asked what it is ------------------------------------------------------------------

TEST(HostilePlugin, IsGoodWithoutAFault) {
  const CommandResult good = info("");
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_NE(good.out.find("hostile 1.2.3"), std::string::npos) << good.out;
}

TEST(HostilePlugin, ThatCrashesWhileItIsLoadedIsRefused) {
  const std::string loading = "hostile.so crashed in its constructors (while it is loaded) (SIG";
  expect_named(info("load-crash"), {loading + "SEGV)"}, 2);
  expect_named(info("load-abort"), {loading + "ABRT)"}, 2);
  expect_named(info("load-recursion"), {loading + "SEGV)"}, 2);
  const std::string query = "hostile.so crashed in its function tsr_plugin_query_v1 (SIG";
  expect_named(info("query-crash"), {query + "SEGV)"}, 2);
  expect_named(info("query-abort"), {query + "ABRT)"}, 2);
  expect_named(train_threads("query-crash"), {query + "SEGV)"}, 2);
}

TEST(HostilePlugin, ThatEndsTheProcessWhileItIsLoadedIsRefused) {
  const Parts constructors = {"hostile.so ended the process in its constructors (while it is loaded)",
                              "never calls exit"};
  expect_named(info("load-exit"), constructors, 2);
  expect_named(info("load-quick-exit"), constructors, 2);
  expect_named(info("load-end-thread"), {"hostile.so", "its constructors"}, 2);
  expect_named(info("query-exit"), {"hostile.so ended the process in its function tsr_plugin_query_v1"}, 2);
  expect_named(train_threads("query-exit"), {"hostile.so ended the process in its function"}, 2);
}

TEST(HostilePlugin, ThatHangsWhileItIsLoadedIsRefused) {
  const auto loading = start({"plugins", "info", kHostile}, "load-hang");
  const auto asking = start({"plugins", "info", kHostile}, "query-hang");
  expect_named(loading->wait(), {"hostile.so has not returned from its constructors (while it is loaded) within 10 s"},
               2);
  expect_named(asking->wait(), {"hostile.so has not returned from its function tsr_plugin_query_v1 within 10 s"}, 2);
}

TEST(HostilePlugin, ThatThrowsWhileItIsLoadedIsRefused) {
  expect_named(info("load-throw"), {"hostile.so", "its constructors"}, 2);
}

// As in its other functions, which are called in the same way.
TEST(HostilePlugin, ThatMisbehavesWhenItIsAskedForItsTableIsRefused) {
  const std::string in = "hostile.so in its function get_interface",
                    escaped = "an exception (thrown where nothing catches";
  expect_named(info("query-throw"), {escaped, "hostile.so in its function tsr_plugin_query_v1"}, 2);
  expect_named(info("interface-throw"), {escaped, in}, 2);
  expect_named(info("interface-crash"), {"hostile.so crashed in its function get_interface (SIGSEGV)"}, 2);
  expect_named(info("interface-exit"), {"hostile.so ended the process in its function get_interface"}, 2);
  expect_named(info("interface-folder"), {in + " changes the current folder"}, 2);
  expect_named(info("interface-fork"), {in + " forked"}, 2);
}

TEST(HostilePlugin, WhoseInterfaceIsThatOfEveryIdIsRefused) {
  expect_named(run({"plugins", "info", binary_dir("tests/bad_plugins/hostile-comm.so")}, "interface-any"),
               {"hostile-comm.so", "returned an interface for an id that it does not have",
                "get_interface returns NULL for those"},
               2);
}

TEST(HostilePlugin, ThatChangesTheProcessIsRefused) {
  for (const std::string place : {"load", "query"}) {
    const std::string in = place == "load" ? "hostile.so in its constructors (while it is loaded) changes "
                                           : "hostile.so in its function tsr_plugin_query_v1 changes ";
#if defined(__x86_64__)
    const std::string computing = in + "how floating-point numbers are computed";
    expect_named(info(place + "-flush"), {computing, "-ffast-math"}, 2);
    expect_named(info(place + "-rounding"), {computing}, 2);
#endif
    expect_named(info(place + "-signals"), {in + "what SIGINT does"}, 2);
    expect_named(info(place + "-locale"), {in + "the locale"}, 2);
    expect_named(info(place + "-cpp-locale"), {in + "the locale"}, 2);
    expect_named(info(place + "-folder"), {in + "the current folder"}, 2);
    expect_named(info(place + "-output"), {"closes standard output"}, 2);
    expect_named(info(place + "-error-output"), {"closes standard error"}, 2);
    expect_named(info(place + "-other-output"), {"replaces standard output"}, 2);
  }
}

TEST(HostilePlugin, ThatChangesTheProcessWhenItIsMadeIsRefused) {
  const std::string in = "in its function create changes ";
  expect_named(train_threads("create-flush"), {kHostile, in + "how floating-point numbers are computed"}, 2);
  expect_named(train_threads("create-signals"), {kHostile, in + "what SIGINT does"}, 2);
  expect_named(train_threads("create-folder"), {kHostile, in + "the current folder"}, 2);
  expect_named(train_wrapped("open-flush", "--device=hostile"), {"hostile-device.so", "function open changes how"}, 1);
}

// ---- in a run -------------------------------------------------------------------------------------------------------

TEST(HostilePlugin, ThatCrashesIsNamed) {
  const std::string text = kHostile + ") crashed in its function ";
  expect_named(train_threads("create-crash"), {"the plugin hostile (" + text + "create (SIGSEGV)"}, by_signal(11));
  expect_named(train_threads("lower-crash"), {"the plugin hostile (" + text + "lower (SIGSEGV)"}, by_signal(11));
  expect_named(train_threads("lower-abort"), {"lower (SIGABRT)"}, by_signal(6));
  expect_named(train_threads("lower-recursion"), {"lower (SIGSEGV)"}, by_signal(11));
  expect_named(train_threads("lower-own-thread"), {kHostile, "crashed on a thread of its own (SIGSEGV)"},
               by_signal(11));
  expect_named(train_wrapped("submit-crash", kNoFlag, "hostile"),
               {"rank ", "hostile-comm.so) crashed in its function submit (SIGSEGV)"}, by_signal(11));
  expect_named(train_wrapped("launch-crash", "--device=hostile"), {"hostile-device.so) crashed in its function launch"},
               by_signal(11));
}

TEST(HostilePlugin, ThatCrashesInAProcessIsNamedBesideTheRank) {
  Parts parts = {"hostile-gloo-comm.so) crashed in its function submit (SIGSEGV)"};
#ifndef TESSERA_IS_SANITIZED  // which exits after its own report
  parts.push_back("killed by signal 11");
#endif
  expect_named(train_wrapped("submit-crash", kNoFlag, "hostile-gloo"), parts, 1);
}

TEST(HostilePlugin, ThatCallsExitEndsTheRunWithOneAndItsName) {
  const std::string text = "in its function lower called exit, so the run ends";
  expect_named(train_threads("lower-exit"), {kHostile, text}, 1);
  expect_named(train_threads("lower-quick-exit"), {kHostile, text}, 1);
#ifndef TESSERA_IS_SANITIZED  // whose own _exit it is there
  expect_named(train_threads("lower-exit-at-once"), {kHostile, text}, 1);
#if defined(__x86_64__)
  expect_named(train_threads("lower-exit-by-call"), {kHostile, text}, 1);
#endif
#endif
  expect_named(train_threads("lower-end-thread"), {kHostile, "ended the thread that called it"}, 1);
  expect_named(run({"plan", "--model=" + golden(), "--batch-size=1", "--seq-len=8", "--mesh=dp=2",
                    "--strategy=dp=" + kHostile, "--verify"},
                   "lower-exit"),
               {kHostile, text}, 1);
  expect_named(train_wrapped("submit-exit", kNoFlag, "hostile-gloo"),
               {"hostile-gloo-comm.so) in its function submit called exit"}, 1);
#ifndef TESSERA_IS_SANITIZED
  for (int i = 0; i < 8; ++i)  // the threads of two ranks at once
    expect_named(train_wrapped("submit-exit", kNoFlag, "hostile"),
                 {"hostile-comm.so) in its function submit called exit"}, 1);
#endif
}

#if defined(__x86_64__)
// Nothing sees that but a parent: the launcher of the ranks, or the supervisor.
TEST(HostilePlugin, ThatEndsItsProcessByItselfDoesNotSucceed) {
  expect_named(train_wrapped("submit-exit-by-instruction", kNoFlag, "hostile-gloo"),
               {"rank ", "ended with exit code 0 before the job was done"}, 1);
  const std::string text = "a plugin has ended the process of the run with exit code 0 before the run was done";
  expect_named(train_threads("lower-exit-by-instruction"), {text}, 1);
  expect_named(train_threads("lower-exit-by-instruction-with-40"),
               {"a plugin has ended the process of the run with exit code 40 before the run was done"}, 40);
  expect_named(run({"plan", "--model=" + golden(), "--batch-size=1", "--seq-len=8", "--mesh=dp=2",
                    "--strategy=dp=" + kHostile, "--verify"},
                   "lower-exit-by-instruction"),
               {text}, 1);
}

// That launcher would take 0 for a success.
TEST(HostilePlugin, ThatEndsARankOfAnotherLauncherDoesNotSucceed) {
  const int port = free_port() - 1;
  std::vector<std::unique_ptr<Command>> ranks;
  for (const int rank : {0, 1}) {
    auto environment = torchrun_variables(rank, 2, port);
    environment["TESSERA_TEST_FAULT"] = "submit-exit-by-instruction";
    ranks.push_back(std::make_unique<Command>(tessera(train_with({"--comm=hostile-gloo", "--strategy=ddp",
                                                                  "--plugin-dir=" + binary_dir("tests/bad_plugins")})),
                                              environment));
  }
  bool is_said = false;
  for (const auto& rank : ranks) {
    const CommandResult result = rank->wait();
    EXPECT_EQ(result.exit_code, 1) << result.err;
    is_said |= result.err.find("a plugin has ended the process of the run with exit code 0") != std::string::npos;
  }
  EXPECT_TRUE(is_said);
}
#endif

TEST(HostilePlugin, ThatForgesTheHostsKeysIsBlamed) {
  const CommandResult killed = train_wrapped("submit-forge-and-kill", kNoFlag, "hostile-gloo");
  expect_named(killed, {"killed by signal 9"}, 1);
  EXPECT_EQ(killed.err.find("all is well"), std::string::npos) << killed.err;
}

/// A run with a policy that moves nothing.
CommandResult train_policy(const std::string& fault, Parts more = {}) {
  more.insert(more.end(), {"--plugin-dir=" + binary_dir("tests/bad_plugins"), "--offload=hostile"});
  return run(train_with(more), fault);
}
const Parts kTwoProcesses = {"--nproc=2", "--comm=gloo", "--strategy=ddp"};

#ifndef TESSERA_IS_SANITIZED  // where the process ends by exit(), for the search for leaks
// The run is over, whatever its destructor does then.
TEST(HostilePlugin, ThatHoldsTheEndUpDoesNotRunThen) {
  for (const char* fault : {"unload-hang", "unload-crash", "unload-exit-at-once-with-7"})
    EXPECT_EQ(train_policy(fault).exit_code, 0) << fault;
  EXPECT_EQ(train_policy("unload-hang", kTwoProcesses).exit_code, 0);
}
#endif

// Ranks are started without the handlers that a plugin has installed for forks.
TEST(HostilePlugin, ThatHandlesForksDoesNotHoldTheLauncherUp) {
  EXPECT_EQ(train_policy("plan-fork-handler", kTwoProcesses).exit_code, 0);
}

TEST(HostilePlugin, ThatWritesWhatItIsShownIsNamed) {
  for (const std::string place : {"layout", "lower"})
    for (const std::string what : {"-write-name", "-write-dims"})
      expect_named(train_threads(place + what), {kHostile, "in its function " + place + " writes through a const"}, 1);
  for (const std::string what : {"plan-write-binding", "plan-write-visit"})
    expect_named(train_policy(what), {"in its function plan writes through a const pointer"}, 1);
}

TEST(HostilePlugin, ThatKillsItsProcessIsReported) {
  const std::string text = "the process of the run was killed by signal ";
  expect_named(train_threads("lower-kill"), {text + "9 (SIGKILL): by a plugin, by hand, or by the system"}, 128 + 9);
#ifndef TESSERA_IS_SANITIZED  // whose own handler it is there
  expect_named(train_threads("lower-crash-unhandled"), {text + "11 (SIGSEGV)"}, by_signal(11));
#endif
  const CommandResult crash = train_threads("lower-crash");
  EXPECT_EQ(crash.err.find(text), std::string::npos) << "said twice: " << crash.err;
}

TEST(HostilePlugin, ThatThrowsIsNamed) {
  const Parts text = {"an exception (thrown where nothing catches it) has left the plugin hostile", kHostile};
  Parts create = text, lower = text;
  create.push_back("in its function create");
  lower.push_back("in its function lower");
  expect_named(train_threads("create-throw"), create);
  expect_named(train_threads("lower-throw"), lower, 1);
  expect_named(train_threads("destroy-throw"), {kHostile, "in its function destroy"}, 1);
}

// At once, since each waits for its time-out.
TEST(HostilePlugin, ThatDoesNotReturnEndsTheRun) {
  const std::string strategy = "--strategy=" + kHostile, device = "--device=hostile";
  const std::string of_start = " (--start-timeout-ms)", of_step = " (--timeout-ms)";
  with_short_time(1'000, [&](int64_t step_ms) {
    const int64_t start_ms = 3 * step_ms;
    struct Run {
      std::string fault, flag, comm, file, function;
      int64_t limit_ms;
      std::string limit = {};
      std::unique_ptr<Command> command = {};
    };
    Run runs[] = {{"lower-hang", strategy, "local", "hostile.so", "lower", start_ms, of_start},
                  {"destroy-hang", strategy, "local", "hostile.so", "destroy", step_ms, of_step},
                  {"create-hang", kNoFlag, "hostile", "hostile-comm.so", "create", start_ms, of_start},
                  {"submit-hang", kNoFlag, "hostile", "hostile-comm.so", "submit", step_ms, of_step},
                  {"submit-hang", kNoFlag, "hostile-gloo", "hostile-gloo-comm.so", "submit", step_ms},
                  {"destroy-hang", kNoFlag, "hostile", "hostile-comm.so", "destroy", step_ms},
                  {"destroy-of-second-hang", kNoFlag, "hostile-gloo", "hostile-gloo-comm.so", "destroy", step_ms},
                  {"launch-hang", device, "local", "hostile-device.so", "launch", step_ms},
                  {"synchronize-hang", device, "local", "hostile-device.so", "stream_synchronize", start_ms},
                  {"close-hang", device, "local", "hostile-device.so", "close", step_ms}};
    for (Run& run : runs)
      run.command = start_wrapped(run.fault, run.flag, run.comm, start_ms, step_ms);
    for (Run& run : runs) {
      SCOPED_TRACE(run.fault + " of " + run.file);
      expect_named(run.command->wait(),
                   {run.file, "has not returned from its function " + run.function + " within " +
                                  std::to_string(run.limit_ms) + " ms" + run.limit},
                   1);
    }
  });
}

// At once, since each waits for some ten seconds: work of a step, and the copy of the state beside one.
TEST(HostilePlugin, WhoseWorkNeverEndsEndsTheRun) {
  const TempFolder folder;
  Parts flags = {"--device=hostile", "--plugin-dir=" + binary_dir("tests/bad_plugins"), "--timeout-ms=500"};
  const auto launch = start(train_with(flags), "launch-never-ends");
  flags.insert(flags.end(), {"--save=" + folder.path("saved"), "--save-every=1", "--save-async"});
  const auto copy = start(train_with(flags), "copy-of-state-never-ends");
  const Parts text = {"the plugin hostile", "hostile-device.so) has ended none of its work for 10550 ms"};
  expect_named(launch->wait(), text, 1);
  expect_named(copy->wait(), text, 1);
}

TEST(HostilePlugin, ThatBlocksInAbortDoesNotHideTheErrorBefore) {
  const Parts text = {"the cable is unplugged; after that the plugin hostile",
                      "has not returned from its function abort"};
  expect_named(train_wrapped("abort-hang", kNoFlag, "hostile"), text, 1);
  expect_named(train_wrapped("abort-hang", kNoFlag, "hostile-gloo"),
               {"[hostile] the cable is unplugged (from the plugin hostile-gloo (",
                "in its function submit); after that the plugin hostile-gloo", "not returned from its function abort"},
               1);
  expect_named(train_wrapped("abort-crash", kNoFlag, "hostile"),
               {"the cable is unplugged; after that the plugin hostile", "crashed in its function abort (SIGSEGV)"},
               by_signal(11));
  // The self-test has failed.
  const std::string failed = "and reported no error; use another --comm; after that the plugin hostile (";
  expect_named(train_wrapped("abort-of-nothing-hang", kNoFlag, "hostile"),
               {failed, "has not returned from its function abort"}, 1);
#if defined(__x86_64__)
  expect_named(train_wrapped("abort-of-nothing-rounding", kNoFlag, "hostile"),
               {failed, "in its function abort changes how floating-point numbers are computed"}, 1);
#endif
}

// Where ranks are threads, the end of the run waits for none of them.
TEST(HostilePlugin, ThatHangsDoesNotHideTheErrorOfAnotherRank) {
  expect_named(train_wrapped("create-fails-beside-hang", kNoFlag, "hostile"),
               {"tessera: rank 1: ", "the cable is unplugged; after that rank 0: the plugin hostile (",
                "has not returned from its function create within 2000 ms, so the run ends"},
               1);
}

// Nor is a device hostile whose optional table is longer than this host knows it.
TEST(HostilePlugin, WhoseOptionalTableIsOfALaterMinorIsUsed) {
  const CommandResult longer =
      run(train_with({"--device=hostile", "--plugin-dir=" + binary_dir("tests/bad_plugins")}), "extension-longer");
  EXPECT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_NE(longer.err.find("3.0 MiB of 7.0 MiB now"), std::string::npos) << longer.err;
}

// ---- pointers and counts --------------------------------------------------------------------------------------------

// Its first load, in a child process, must not crash on what the host asks about.
TEST(HostilePlugin, WhoseDescriptionIsNotThereIsRefused) {
  const std::map<std::string, std::string> sentences = {{"wild_factory", "a factory that is missing"},
                                                        {"wild_version", "a malformed version"},
                                                        {"wild_options", "a malformed list of 5 options"},
                                                        {"wild_table", "in memory that cannot be read"}};
  for (const auto& [name, sentence] : sentences)
    expect_named(run({"plugins", "info", binary_dir("tests/bad_plugins/" + name + ".so")}, ""), {name, sentence}, 2);
}

TEST(HostilePlugin, ThatHandsOverPointersThatLieIsRefused) {
  const std::map<std::string, std::string> sentences = {
      {"null-action", "the action is NULL"},
      {"null-id", "the pointer for the result is NULL"},
      {"null-bindings", "the action's array bindings is NULL"},
      {"wild-bindings", "the action's array bindings points to memory that cannot be read"},
      {"many-bindings", "the action's array bindings has a count of 16777216; the limit is 4194304"},
      {"wrapping-bindings", "the action's array bindings has a count of 1152921504606846976"},
      {"unmapped", "the action's array bindings points to memory that cannot be read"},
      {"protected", "the action's array bindings points to memory that cannot be read"},
      {"past-end", "the action's array bindings points to memory that cannot be read, or is shorter than its count"},
      {"null-group", "the group is NULL"},
      {"null-coordinates", "the group's array coordinates is NULL, with a count of 2"},
      {"null-buffer", "the buffer is NULL"},
      {"endless-name", "the buffer's name has a text of 1099511627776 bytes; the limit is 4096"},
      {"null-lane", "the lane's name is NULL, with a count of 5"},
      {"null-homes", "the array homes is NULL, with a count of 3"},
      {"null-pieces", "the home's array pieces is NULL, with a count of 3"},
      {"null-halves", "the pointer for the result is NULL"},
      {"null-order", "the array actions is NULL, with a count of 3"},
      {"null-place", "the role is NULL"},
      {"null-binding", "the binding is NULL"},
  };
  for (const auto& [fault, sentence] : sentences)
    expect_named(train_threads("edit-" + fault), {"strategy hostile on axis dp", sentence}, 2);
  EXPECT_EQ(train_threads("table-gone").err, train_threads("").err) << "the host reads its own copy";
  expect_named(train_threads("variants-many"), {"strategy hostile on axis dp asks for 1000000000 variants", "4096"}, 2);
}

TEST(HostilePlugin, ThatReturnsOkAndNoObjectIsNamed) {
  const auto nothing = [](const std::string& function) {
    return "in its function " + function + " returned OK and no object";
  };
  expect_named(train_wrapped("create-null", kNoFlag, "hostile"), {"hostile-comm.so", nothing("create")}, 1);
  const std::map<std::string, std::string> functions = {{"open", "open"},
                                                        {"allocate", "allocate"},
                                                        {"stream", "stream_create"},
                                                        {"event", "event_create"},
                                                        {"prepare", "prepare"}};
  for (const auto& [fault, function] : functions)
    expect_named(train_wrapped(fault + "-null", "--device=hostile"), {"hostile-device.so", nothing(function)}, 1);
}

TEST(HostilePlugin, ThatAnswersNonsenseIsNamed) {
  expect_named(train_wrapped("describe-endless", "--device=hostile"),
               {"hostile-device.so", "in its function describe returned 1099511627776 slots", "the limit is 4096"});
  const std::string describe = "hostile-device.so) in its function describe returned ";
  const std::map<std::string, std::string> answers = {{"most", "18446744073709551615 slots"},
                                                      {"more", "1032 slots and OK, where there was room for 32"},
                                                      {"spare", "a wrong slot: "},
                                                      {"flags", "a wrong slot: "},
                                                      {"dtype", "a wrong slot: "},
                                                      {"mode", "a wrong slot: p0 of op token_embedding: it has mode"},
                                                      {"elements", "a wrong slot: p0 of op token_embedding: it has "},
                                                      {"less", "a wrong slot: o0 of op token_embedding: it is miss"}};
  for (const auto& [fault, answer] : answers)
    expect_named(train_wrapped("describe-" + fault, "--device=hostile"), {describe + answer});
  expect_named(train_wrapped("extension-wild", "--device=hostile"),
               {"hostile-device.so", "in its function get_extension returned a table tsr.device.",
                " in memory that cannot be read"});
  expect_named(
      train_wrapped("extension-short", "--device=hostile"),
      {"hostile-device.so", "in its function get_extension returned a table tsr.device.", " of 12 bytes; at least "});
  expect_named(train_wrapped("extension-reserved", "--device=hostile"),
               {"hostile-device.so", "in its function get_extension returned a table tsr.device.",
                " with a reserved word that is not 0"});
  expect_named(train_wrapped("caps-flags", kNoFlag, "hostile"),
               {"hostile-comm.so", "in its function caps says that it has flags 256, collectives 0 and reductions 0"},
               2);
  expect_named(train_wrapped("caps-collectives", kNoFlag, "hostile"), {"flags 0, collectives 1 and"}, 2);
  expect_named(train_wrapped("extension-holes", "--device=hostile"), {"hostile-device.so", "has no function "});
  expect_named(train_wrapped("submit-silent", kNoFlag, "hostile"),
               {"without a message from the plugin hostile", "in its function submit"}, 1);
  expect_named(train_wrapped("async-silent", kNoFlag, "hostile"),
               {"without a message from the plugin hostile", "in its function async_error"}, 1);
}

// Every submit fails, and then it does not abort what it has.
TEST(HostilePlugin, ThatAbortsNothingEndsTheRun) {
  for (const char* comm : {"hostile", "hostile-gloo"})
    expect_named(train_wrapped("abort-nothing", kNoFlag, comm), {"the cable is unplugged"}, 1);
}

}  // namespace
}  // namespace tessera::testing
