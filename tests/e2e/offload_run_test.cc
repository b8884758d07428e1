// --offload as typed: what plan, train, metrics and the drawing say of it.
#include <gtest/gtest.h>

#include "e2e/cli.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

using Flags = std::vector<std::string>;
using nlohmann::json;

const Flags kActivations = {"--offload=activations", "--activations.min-bytes=0"};

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

CommandResult plan(const Flags& more) {
  const CommandResult result = run_command(tessera(Flags{"plan", "--model", golden(), "--seq-len=32"} + more));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result;
}

json plan_json(const Flags& more) {
  return json::parse(plan(more + Flags{"--json"}).out);
}

CommandResult run(const Flags& more) {
  const CommandResult result = run_command(train(Flags{"--steps=3"} + more));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result;
}

void expect_all(const std::string& text, const Flags& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
}

TEST(Offload, PlanShowsEachMemoryAndWhatMoves) {
  const json without = plan_json({}), with = plan_json(kActivations);
  EXPECT_EQ(without["offload"]["policies"], json::array());
  EXPECT_EQ(without["offload"]["places"].size(), 1u);
  EXPECT_EQ(without["offload"]["moved"][0]["in_bytes"], 0);
  EXPECT_EQ(without["peak_bytes"]["fetched"], 0);

  EXPECT_EQ(with["offload"]["policies"], json({"activations"}));
  const json &device = with["offload"]["places"][0], &host = with["offload"]["places"][1];
  EXPECT_EQ(device["place"], "device");
  EXPECT_EQ(device["peak_bytes"], with["peak_bytes"]["total"]);
  EXPECT_EQ(host["place"], "host");
  EXPECT_EQ(host["rest_bytes"], 0);
  EXPECT_EQ(host["peak_bytes"],
            host["by_class"]["saved"].get<int64_t>() + host["by_class"]["activations"].get<int64_t>());
  EXPECT_GE(with["host_arena_bytes"], host["peak_bytes"]);
  // One micro-batch: each tensor leaves once and comes back once, and all are away when the loss is computed. Tensors
  // in memory are rounded up to 256 bytes.
  const json &forward = with["offload"]["moved"][0], &backward = with["offload"]["moved"][1];
  const json& update = with["offload"]["moved"][2];
  EXPECT_EQ(forward["phase"], "forward");
  EXPECT_EQ(backward["phase"], "backward");
  EXPECT_EQ(backward["in_bytes"], forward["out_bytes"]);
  EXPECT_EQ(forward["in_bytes"].get<int64_t>() + backward["out_bytes"].get<int64_t>(), 0);
  EXPECT_GT(forward["out_bytes"], 0);
  EXPECT_LE(forward["out_bytes"], host["peak_bytes"]);
  EXPECT_GE(forward["out_bytes"].get<double>(), 0.95 * host["peak_bytes"].get<double>());
  EXPECT_EQ(update["phase"], "update");
  EXPECT_EQ(update["in_bytes"].get<int64_t>() + update["out_bytes"].get<int64_t>(), 0);
  EXPECT_LT(with["most_bytes"]["saved"], without["most_bytes"]["saved"]);
  EXPECT_GT(with["most_bytes"]["fetched"], 0);

  expect_all(plan(kActivations).out,
             {"\n  fetched ", "\n\n  in host memory    between steps    at the peak       own peak\n",
              "\noffload: activations\n", "\n  moved in a step ", "\n  forward             ",
              "\n  backward            ", "\n  update                          -              -\n"});
  const std::string plain = plan({}).out;
  EXPECT_EQ(plain.find("offload"), std::string::npos) << plain;
  EXPECT_EQ(plain.find("in host memory"), std::string::npos) << plain;
}

TEST(Offload, PlanShowsWhatRestsElsewhere) {
  const json without = plan_json({}), with = plan_json({"--offload=optimizer-state"});
  const json& host = with["offload"]["places"][1];
  const auto state = without["states"]["optimizer"].get<int64_t>();
  EXPECT_EQ(with["states"]["optimizer"], 0);
  EXPECT_EQ(host["rest_bytes"], state);
  EXPECT_EQ(host["by_class"]["optimizer"], state);
  // What lies between parameters, to align them, may move with them.
  for (const int phase : {0, 1})
    EXPECT_EQ(with["offload"]["moved"][phase]["in_bytes"].get<int64_t>() +
                  with["offload"]["moved"][phase]["out_bytes"].get<int64_t>(),
              0);
  const json& update = with["offload"]["moved"][2];
  EXPECT_EQ(update["in_bytes"], update["out_bytes"]);
  EXPECT_LE(update["in_bytes"], state);
  EXPECT_GE(update["in_bytes"].get<double>(), 0.98 * static_cast<double>(state));
  EXPECT_LT(with["arena_bytes"], without["arena_bytes"]);
}

TEST(Offload, ThreeMicroBatchesMoveThreeTimesAsMuch) {
  const auto out = [](const Flags& more) {
    return plan_json(kActivations + more)["offload"]["moved"][0]["out_bytes"].get<int64_t>();
  };
  EXPECT_EQ(out({"--grad-accum=3"}), 3 * out({}));
}

TEST(Offload, TheDrawingHasItsStreams) {
  const std::string svg = plan(kActivations + Flags{"--svg", "-"}).out;
  expect_all(svg, {">evict</text>", ">fetch</text>"});
}

TEST(Offload, TrainSaysWhatMovesAndWhereItIs) {
  const TempFolder folder;
  const CommandResult cpu = run(kActivations + Flags{"--metrics", folder.path("m")});
  expect_all(cpu.err, {"\n  offload          activations 0.", "; up to ", " in host memory; ", " in each step\n",
                       "warning: offload to host memory frees no memory on this machine, since the memory of --device "
                       "cpu is host memory",
                       "\n  offload moved    ", " in, in all steps of rank 0"});
  for (const json& step : read_metrics(folder.path("m"))) {
    EXPECT_GT(step["evicted_bytes"], 0);
    EXPECT_EQ(step["fetched_bytes"], step["evicted_bytes"]);
  }
  const Flags on_other = {"--device=other", "--plugin-dir=" + binary_dir("tests/devices")};
  const CommandResult other = run(kActivations + on_other + Flags{"--nproc=2", "--comm=local"});
  expect_all(other.err, {" of host memory for staging", "\n  offload          activations 0.", "; up to "});
  EXPECT_EQ(other.err.find("frees no memory"), std::string::npos) << other.err;
  // The copies are the device's own work, so one rank's step is a graph.
  expect_all(run(kActivations + on_other).err, {"cuda graph       on"});
}

TEST(Offload, UpdatesOnTheHostAreSaidAndAreNoGraph) {
  const Flags on_other = {"--device=other", "--plugin-dir=" + binary_dir("tests/devices")};
  const std::string off = "cuda graph       off, because the optimizer runs on the host (--";
  for (const std::string policy : {"optimizer-state", "stream"}) {
    const Flags flags = {"--offload=" + policy, "--" + policy + ".update=host"};
    expect_all(run(flags + on_other).err, {off + policy + ".update=host)"});
    expect_all(plan(flags + Flags{"--svg", "-"}).out, {">host</text>"});
    const json planned = plan_json(flags);
    EXPECT_EQ(planned["states"]["parameters"].get<int64_t>() + planned["states"]["optimizer"].get<int64_t>(), 0);
    EXPECT_EQ(planned["offload"]["moved"][2]["in_bytes"], 0) << "the update is where everything rests";
  }
}

// As for a communicator that works on the host.
TEST(Offload, UpdatesOnTheHostNeedADeviceThatCanWaitForIt) {
  const Flags on_bare = {"--device=bare", "--plugin-dir=" + binary_dir("tests/devices"), "--steps=1"};
  const CommandResult refused =
      run_command(train(Flags{"--offload=optimizer-state", "--optimizer-state.update=host"} + on_bare));
  EXPECT_EQ(refused.exit_code, 2);
  expect_all(refused.err, {"offload policy optimizer-state: ",
                           "cannot run on the host: the streams of --device bare "
                           "cannot wait for the host (it has no tsr.device.semaphore/1); let it run on the device"});
  EXPECT_EQ(run_command(train(Flags{"--offload=optimizer-state"} + on_bare)).exit_code, 0);
}

TEST(Offload, NothingToGainIsSaid) {
  const CommandResult result = run({"--offload=activations"});  // tensors of this model are below 1 MiB
  expect_all(result.err, {"\n  offload          activations 0.", "; nothing leaves device memory\n"});
  EXPECT_EQ(result.err.find("frees no memory"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace tessera::testing
