// Plugins that claim less than a program needs, claim what is not so, or say OK and do nothing: the first are refused
// before any rank starts, the last fail the self-test at the start of the run.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "e2e/cli.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

using Parts = std::vector<std::string>;

/// Ranks over a communicator, and on a device, that wrap the repository's; what they do wrong, tests/abi/bad_plugins
/// says.
CommandResult run(const std::string& fault, Parts more, int num_ranks = 2) {
  more.insert(more.end(),
              {"--steps=2", "--nproc=" + std::to_string(num_ranks), "--plugin-dir=" + binary_dir("tests/bad_plugins"),
               "--plugin-dir=" + binary_dir("tests/in_place_strategy")});
  return Command(train(more), {{"TESSERA_TEST_FAULT", fault}}).wait();
}

void expect_refused(const CommandResult& run, const std::string& sentence, int exit_code) {
  EXPECT_EQ(run.exit_code, exit_code) << run.err;
  EXPECT_NE(run.err.find(sentence), std::string::npos) << run.err;
  EXPECT_EQ(run.err.find("tok/s"), std::string::npos) << "it trained:\n" << run.err;
}

TEST(Claims, AreBelieved) {
  for (const char* fault : {"none", "caps-not-canonical", "caps-no-all-to-all", "caps-no-barrier"}) {
    const CommandResult result = run(fault, {"--comm=hostile", "--strategy=ddp"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
}

TEST(Claims, AProgramThatNeedsMoreIsRefused) {
  const std::string head = "--comm hostile does not claim ";
  expect_refused(run("caps-no-all-to-all", {"--comm=hostile", "--strategy=routing"}),
                 head +
                     "all_to_all, which all_to_all sent on comm.dp.routes needs; give another communicator, or another "
                     "--strategy",
                 2);
  expect_refused(run("caps-no-all-reduce", {"--comm=hostile", "--strategy=ddp"}), head + "all_reduce, which all_reduce",
                 2);
  expect_refused(run("caps-no-sum", {"--comm=hostile", "--strategy=fsdp"}), head + "sum, which ", 2);
  expect_refused(run("caps-integers", {"--comm=hostile", "--strategy=ddp"}), head + "f32, which ", 2);
  expect_refused(run("caps-no-sum", {"--comm=hostile-gloo"}), "--comm hostile-gloo does not claim sum", 2);
}

TEST(Claims, ThatCannotBeSoAreRefused) {
  expect_refused(run("caps-nothing", {"--comm=hostile"}), "the caps of --comm hostile claim no collective", 2);
  expect_refused(run("caps-other-kinds", {"--comm=hostile"}),
                 "the caps of --comm hostile are for streams of the kind cpu.queue, which they do not list", 2);
  expect_refused(run("caps-silent", {"--comm=hostile"}),
                 "--comm hostile does not work on the streams of --device cpu (cpu.queue): status -", 2);
  expect_refused(run("caps-silent", {"--comm=hostile"}), " without a message from the plugin hostile (", 2);
  expect_refused(run("caps-wild", {"--comm=hostile"}), "the caps of --comm hostile cannot be read: their array dtypes",
                 2);
}

TEST(SelfTest, FindsACommunicatorThatDoesNothing) {
  for (const std::string comm : {"hostile", "hostile-gloo"}) {
    const CommandResult result = run("submit-nothing", {"--comm=" + comm, "--strategy=ddp"});
    expect_refused(
        result,
        "the plugin " + comm + " (" + binary_dir("tests/bad_plugins") + "/" + comm + "-comm.so) fails its self-test: ",
        1);
    expect_refused(result, " instead of 3 as a sum over 2 ranks, and reported no error; use another --comm", 1);
  }
}

TEST(SelfTest, FindsACommunicatorWhoseCollectivesAreWrong) {
  struct Case {
    std::string fault, strategy, sentence;
  };
  const Case cases[] = {
      {"result-integers", "ddp", "gave a wrong result of all_reduce of int64 over 2 ranks"},
      {"result-late-integers", "ddp", "gave a wrong result of all_reduce of int64 over 2 ranks"},
      {"result-beside", "ddp", "wrote beside the memory of all_reduce over 2 ranks"},
      {"result-aside", "ddp",
       "gave -9 instead of 3 as number 69 of the memory of all_reduce (sum of f32, not in place) "},
      {"result-rounded", "ddp", " as a sum in the order of the canonical tree, which it claims, over 2 ranks"},
      {"result-order", "fsdp", "gave 17 instead of 8 as number 1 of the memory of all_gather over 2 ranks"},
      {"result-range", "fsdp", "wrote beside the memory of all_gather over 2 ranks"},
      {"result-own-part", "fsdp", "gave 0 instead of 8 as number 1 of the memory of all_gather over 2 ranks"},
      {"result-own-part", "pipeline", " as number 1 of the memory of recv over 2 ranks"},
      {"result-gather-aside", "fsdp",
       "gave -9 instead of 8 as number 7 of the memory of all_gather (f32, not in place) "},
      {"result-of-root-0", "zero3",
       "gave 0 instead of 3 as number 1 of the memory of reduce (sum of f32 to rank 0, in "},
      {"result-own-copy", "zero3", " as number 69 of the memory of broadcast (f32 from rank "},
      {"result-order", "routing", " of the memory of all_to_all over 2 ranks"},
      {"result-range", "routing", "wrote beside the memory of all_to_all over 2 ranks"},
  };
  for (const std::string comm : {"hostile", "hostile-gloo"})
    for (const Case& c : cases) {
      SCOPED_TRACE(c.fault + " under " + c.strategy);
      const CommandResult result = run(c.fault, {"--comm=" + comm, "--strategy=" + c.strategy});
      expect_refused(result, comm + "-comm.so) fails its self-test: ", 1);
      expect_refused(result, c.sentence, 1);
      expect_refused(result, ", and reported no error; use another --comm", 1);
    }
}

TEST(SelfTest, FindsAResultThatIsWrongOnOneRank) {
  for (const std::string comm : {"hostile", "hostile-gloo"})
    expect_refused(run("result-of-second", {"--comm=" + comm, "--strategy=ddp"}),
                   "gave 4 instead of 3 as a sum over 2 ranks, and reported no error; use another --comm", 1);
}

TEST(SelfTest, FindsReductionsThatAreWrong) {
  for (const std::string comm : {"hostile", "hostile-gloo"}) {
    expect_refused(run("result-averages", {"--comm=" + comm, "--strategy=local-sgd", "--local-sgd.every=2",
                                           "--plugin-dir=" + binary_dir("tests/mutation_strategies")}),
                   "gave 3 instead of 1.5 as number 1 of the memory of all_reduce (avg of f32, in place)", 1);
    expect_refused(run("result-narrow", {"--comm=" + comm, "--strategy=ddp", "--dtype=bf16", "--reduce-dtype=bf16"}),
                   "gave a wrong result of all_reduce (sum of bf16, in place)", 1);
  }
}

TEST(SelfTest, FindsAGatherThatIsWrongInTheDtypeOfTheProgram) {
  for (const std::string comm : {"hostile", "hostile-gloo"})
    expect_refused(run("result-narrow-gather", {"--comm=" + comm, "--strategy=fsdp", "--dtype=bf16"}),
                   "gave a wrong result of all_gather (bf16, in place) over 2 ranks, and reported no error", 1);
}

// Ranks {0, 2} and {1, 3} are connected as {0, 3} and {1, 2}.
TEST(SelfTest, FindsACommunicatorOfMembersOfAnotherGroup) {
  for (const std::string comm : {"hostile", "hostile-gloo"}) {
    const CommandResult result =
        run("result-of-other-group", {"--comm=" + comm, "--mesh=dp=2,tp=2", "--strategy=dp=ddp,tp=tensor"}, 4);
    expect_refused(result, comm + "-comm.so) fails its self-test: dp.gradient gave 5 instead of ", 1);
    expect_refused(result, " as a sum over 2 ranks, and reported no error; use another --comm", 1);
  }
}

TEST(SelfTest, LeavesARightCommunicatorAlone) {
  for (const std::string strategy : {"ddp", "fsdp", "zero3", "tensor", "pipeline", "routing"})
    for (const std::string comm : {"local", "gloo"}) {
      const CommandResult result = run("none", {"--comm=" + comm, "--strategy=" + strategy});
      EXPECT_EQ(result.exit_code, 0) << strategy << " over " << comm << "\n" << result.err;
    }
  for (const std::string dtype : {"bf16", "fp16"})
    for (const std::string strategy : {"fsdp", "zero3"}) {
      const CommandResult result =
          run("none", {"--comm=gloo", "--strategy=" + strategy, "--dtype=" + dtype, "--reduce-dtype=" + dtype}, 3);
      EXPECT_EQ(result.exit_code, 0) << strategy << " in " << dtype << "\n" << result.err;
    }
}

TEST(SelfTest, FindsADeviceThatRunsWhatItIsToCapture) {
  expect_refused(run("capture-nothing", {"--comm=local", "--device=hostile", "--strategy=ddp"}),
                 "hostile-device.so) fails its self-test: a capture ran what it was to capture", 1);
}

TEST(SelfTest, FindsADeviceWhoseStreamsAreNotInOrder) {
  const std::string head = "hostile-device.so) fails its self-test: a copy did not wait for the work before it";
  for (const std::string fault : {"wait-nothing", "copy-at-once"})
    expect_refused(run(fault, {"--device=hostile", "--comm=gloo"}), head, 1);
  const std::string function = "hostile-device.so) fails its self-test: a host function did not wait for the ";
  expect_refused(run("function-swapped", {"--device=hostile", "--comm=gloo"}), function + "one before it", 1);
  expect_refused(run("function-at-once", {"--device=hostile", "--comm=gloo"}), function + "copy before it", 1);
}

TEST(SelfTest, FindsADeviceThatRunsFunctionsTwice) {
  expect_refused(run("function-twice", {"--device=hostile", "--comm=gloo"}),
                 "hostile-device.so) fails its self-test: a host function ran 2 times instead of once", 1);
}

TEST(SelfTest, FindsADeviceThatCopiesOtherRanges) {
  const std::string head = "hostile-device.so) fails its self-test: a copy from the host to the device ";
  const Parts flags = {"--device=hostile", "--comm=gloo"};
  expect_refused(run("copy-to-a-page", flags), head + "wrote beside its range: it left byte 4096 at ", 1);
  expect_refused(run("copy-from-a-page", flags), head + "left byte 0 at ", 1);
  expect_refused(run("copy-by-sixteens", flags), head + "left byte 992 at 90 instead of ", 1);
}

TEST(SelfTest, FindsADeviceWhoseStepIsAnother) {
  const std::string head = "hostile-device.so) fails its self-test: ";
  const Parts flags = {"--device=hostile", "--comm=gloo"};
  expect_refused(run("clip-off", flags), head + "clip gave 1 instead of 0.29981", 1);
  for (const std::string fault : {"adamw-no-decay", "adamw-beta"})
    expect_refused(run(fault, flags), head + "adamw gave ", 1);
}

#if defined(__x86_64__)
TEST(SelfTest, FindsADeviceThatTakesDenormalsForZero) {
  expect_refused(run("kernels-flush", {"--device=hostile", "--comm=gloo"}),
                 "hostile-device.so) fails its self-test: add gave 0 instead of ", 1);
}
#endif

TEST(SelfTest, FindsADeviceThatDoesNothing) {
  const std::string head =
      "the plugin hostile (" + binary_dir("tests/bad_plugins") + "/hostile-device.so) fails its self-test: ";
  const Parts flags = {"--device=hostile", "--comm=gloo"};
  expect_refused(run("launch-nothing", flags),
                 head + "add gave 10 instead of 11 in element 0, and reported no error; use another --device", 1);
  expect_refused(run("fill-nothing", flags), head + "fill ", 1);
  expect_refused(run("copy-nothing", flags), head + "fill left byte 0 at 238 instead of 63", 1);
}

/// The program beside a default device that wraps the repository's, as it would be installed.
std::string program_with_hostile_device(const TempFolder& folder) {
  namespace fs = std::filesystem;
  fs::copy(tessera_program(), folder.path("tessera"));
  fs::copy(binary_dir("tests/bad_plugins/default"), folder.path("plugins"));
  return folder.path("tessera");
}

TEST(SelfTest, FindsSuchADeviceInEveryCommandThatComputes) {
  const TempFolder folder;
  const std::string talk = source_dir("tests/golden/gpt2-talk"), model = "--model=" + golden();
  const auto run = [&, program = program_with_hostile_device(folder)](Parts parts) {
    parts.insert(parts.begin(), program);
    parts.push_back("--threads=1");
    return Command(parts, {{"TESSERA_TEST_FAULT", "launch-nothing"}}).wait(std::chrono::seconds(120));
  };
  const std::string sentence = "cpu-device.so) fails its self-test: add gave 10 instead of 11 in element 0";
  for (const Parts& command : {Parts{"generate", talk, "--prompt=1", "--max-tokens=2"},
                               Parts{"eval", golden(), "--data=" + golden("/tokens.bin"), "--seq-len=32"},
                               Parts{"bench", "rates", model, "--seq-len=32", "--rates=" + folder.path("rates")}}) {
    const CommandResult result = run(command);
    expect_refused(result, sentence, 1);
    EXPECT_EQ(result.out, "") << command[0];
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path("rates")));
}

}  // namespace
}  // namespace tessera::testing
