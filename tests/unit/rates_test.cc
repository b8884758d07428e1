// The file of rates, and what actions cost by it.
#include "rates/rates.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "offload/copies.h"
#include "plan/prediction/costs.h"
#include "plan/prediction/prediction.h"
#include "support/expect_error.h"
#include "support/program_builder.h"
#include "support/temp_folder.h"

namespace tessera::testing {
using namespace host;
namespace {

Rates some_rates() {
  Rates rates;
  rates.device = "cpu";
  rates.measured = "2026-01-02T03:04:05Z";
  rates.num_threads = 3;
  rates.ops = {{"zero f32", "elements 8", 0, 32, 0.5},
               {"zero f32", "elements 1024", 0, 4096, 2},
               {"linear forward f32", "in 4", 1000, 64, 0.25}};
  rates.copies = {1e9, 2e9, {0.75, 0.5}};
  rates.files = FileRates{100, 300, 200, 0.125, {0.9, 0.8}};
  return rates;
}

class RatesFile : public ::testing::Test {
 protected:
  std::string write(const std::string& text) const {
    std::ofstream(folder_.path("rates")) << text;
    return folder_.path("rates");
  }
  /// The good file with one change, which must be refused with these words.
  void expect_refused(const std::function<void(nlohmann::json&)>& change, const std::string& words) const {
    nlohmann::json json = nlohmann::json::parse(rates_json(some_rates()));
    change(json);
    const std::string path = write(json.dump());
    expect_error([&] { read_rates(path); }, {words});
  }

  const TempFolder folder_;
};

TEST_F(RatesFile, KeepsWhatIsNotMeasuredAgain) {
  const std::string path = write(rates_json(some_rates()));
  Rates measured;
  measured.measured = "2026-02-02T03:04:05Z";
  measured.files = FileRates{1, 3, 2, 0.5, {0.9, 0.8}};
  const Rates all = with_others_of(path, measured);
  EXPECT_EQ(all.device, "cpu");
  EXPECT_EQ(all.ops.size(), 3u);
  EXPECT_EQ(all.num_threads, 3);
  EXPECT_EQ(all.measured, measured.measured);
  EXPECT_EQ(rates_json({.measured = all.measured, .files = all.files}), rates_json(measured));
  measured.device = "gpu";
  EXPECT_TRUE(with_others_of(path, measured).ops.empty());
  for (const std::string& other : {path + ".none", write("{}")})
    EXPECT_EQ(rates_json(with_others_of(other, measured)), rates_json(measured));
}

TEST_F(RatesFile, ReadsBackWhatWasWritten) {
  Rates rates = some_rates();
  rates.link_bytes_per_second = 5e9;
  const std::string text = rates_json(rates);
  EXPECT_TRUE(begins_like_rates(text));
  EXPECT_FALSE(begins_like_rates("{\n  \"rates\": 1"));
  EXPECT_EQ(rates_json(read_rates(write(text))), text);
  rates.files.reset();
  rates.link_bytes_per_second.reset();
  const Rates read = read_rates(write(rates_json(rates)));
  EXPECT_FALSE(read.files || read.link_bytes_per_second);
}

TEST_F(RatesFile, WhatIsWrongIsRefusedByItsPath) {
  using J = nlohmann::json;
  expect_refused([](J& j) { j.erase("device"); }, "\"device\" is missing");
  expect_refused([](J& j) { j["tessera_rates"] = 2; }, "\"tessera_rates\" is 2; this tessera reads version 1");
  expect_refused([](J& j) { j["threads"] = 0; }, "\"threads\" is 0, not a whole number of at least 1");
  expect_refused([](J& j) { j["threads"] = 1.5; }, "\"threads\" is 1.5");
  expect_refused([](J& j) { j["copies"]["in_bytes_per_second"] = 0; },
                 "\"copies.in_bytes_per_second\" is 0, not a number above 0");
  expect_refused([](J& j) { j["copies"]["beside_compute"]["compute"] = 1.5; },
                 "\"copies.beside_compute.compute\" is 1.5, not a share of at most 1");
  expect_refused([](J& j) { j["files"]["read_bytes_per_second"] = "fast"; },
                 "\"files.read_bytes_per_second\" is \"fast\", not a number");
  expect_refused([](J& j) { j["files"]["seconds_per_transfer"] = -1; }, "\"files.seconds_per_transfer\" is -1");
  expect_refused([](J& j) { j["files"] = 3; }, "\"files\" is not an object");
  expect_refused([](J& j) { j["ops"] = J::array(); }, "\"ops\" is not a list with at least one entry");
  expect_refused([](J& j) { j["ops"][1]["seconds"] = 0; }, "\"ops[1].seconds\" is 0");
  expect_refused([](J& j) { j["ops"][1]["seconds"] = 1e308; }, "\"ops[1].seconds\" is 1e+308; at most 1e+18 can be");
  expect_refused([](J& j) { j["ops"][2].erase("shape"); }, "\"ops[2].shape\" is missing");
  expect_refused([](J& j) { j["link_bytes_per_second"] = nullptr; }, "\"link_bytes_per_second\" is null");
  expect_error([&] { read_rates(write("rates: 3")); }, {"--rates"});
  expect_error([&] { read_rates(folder_.path("nowhere")); }, {"nowhere"});
}

TEST_F(RatesFile, SeveralFilesAreOne) {
  const auto write_as = [&](const char* name, const Rates& rates) {
    std::ofstream(folder_.path(name)) << rates_json(rates);
    return folder_.path(name);
  };
  Rates comm, later;
  comm.collectives = {{"gloo", 2, {0.5, 0.25}, {{"all_reduce", 1024, 3}}}};
  later.device = "cpu";
  later.num_threads = 1;
  later.ops = {{"zero f32", "elements 8", 0, 32, 7}};
  const std::vector<std::string> files = {write_as("all", some_rates()), write_as("comm", comm),
                                          write_as("later", later)};
  const Rates all = read_all_rates(files);
  EXPECT_EQ(all.ops.size(), 3u);
  EXPECT_EQ(all.ops[0].seconds, 7);  // replaced
  EXPECT_EQ(all.ops[1].seconds, 2);
  EXPECT_EQ(all.collectives.at(0).times.at(0).seconds, 3);
  EXPECT_TRUE(all.files && all.copies);
  later.device = "cuda";
  const std::vector<std::string> differ = {files[0], write_as("later", later)};
  expect_error([&] { read_all_rates(differ); }, {"was measured on --device cuda", "on --device cpu"});
}

TEST_F(RatesFile, CollectivesAreReadStrictly) {
  Rates rates = some_rates();
  rates.collectives = {{"gloo", 2, {0.5, 0.25}, {{"all_reduce", 1024, 3}}}};
  const std::string text = rates_json(rates);
  EXPECT_EQ(rates_json(read_rates(write(text))), text);
  nlohmann::json json = nlohmann::json::parse(text);
  json["collectives"][0]["ranks"] = 1;
  expect_error([&] { read_rates(write(json.dump())); }, {"\"collectives[0].ranks\" is 1, and a collective needs 2"});
  json["collectives"][0]["ranks"] = 2;
  json["collectives"][0]["times"][0]["seconds"] = 0;
  expect_error([&] { read_rates(write(json.dump())); }, {"\"collectives[0].times[0].seconds\" is 0"});
}

class CostsOf : public ::testing::Test {
 protected:
  uint64_t buffer(uint32_t memory, uint64_t num_elements) {
    return program_.add_buffer({0, "b", TSR_BUFFER_SAVED, memory, TSR_F32, false, num_elements});
  }
  Action zero(uint64_t num_elements) {
    return add_action(program_, TSR_ACTION_ZERO, TSR_STREAM_COMPUTE,
                      {{buffer(TSR_MEMORY_DEVICE, num_elements), TSR_MODE_WRITE, TSR_SLOT(TSR_ROLE_DESTINATION, 0), 0,
                        num_elements}});
  }
  Action copy(uint32_t stream, uint32_t from, uint32_t to) {
    return add_action(program_, TSR_ACTION_COPY, stream,
                      {{buffer(from, 100), TSR_MODE_READ, TSR_SLOT(TSR_ROLE_SOURCE, 0), 0, 100},
                       {buffer(to, 100), TSR_MODE_WRITE, TSR_SLOT(TSR_ROLE_DESTINATION, 0), 0, 100}});
  }
  double seconds(const Action& action) const { return Costs(rates_).seconds(program_, action); }

  const Model model_ = toy_model();
  const Mesh mesh_{{{"dp", 1}}};
  Program program_ = empty_program(model_, mesh_, {0});
  Rates rates_ = some_rates();
};

TEST_F(CostsOf, OpsAreThoseMeasuredOrTheNearestScaled) {
  EXPECT_EQ(seconds(zero(8)), 0.5);
  EXPECT_EQ(seconds(zero(1024)), 2);
  EXPECT_EQ(seconds(zero(16)), 1);   // nearer to 8
  EXPECT_EQ(seconds(zero(512)), 1);  // nearer to 1024
  EXPECT_EQ(seconds(zero(2048)), 4);
  rates_.ops.erase(rates_.ops.begin(), rates_.ops.begin() + 2);
  rates_.ops.push_back({"scale f32", "elements 100", 0, 400, 2});
  EXPECT_EQ(seconds(zero(50)), 1);  // of a kind that was not measured: by bytes, over all that are not products
}

TEST_F(CostsOf, ProductsThatWereNotMeasuredAreByTheOperationsOfThoseThatWere) {
  rates_.ops = {{"attention forward f32", "seq 4", 1000, 64, 2}, {"scale f32", "elements 100", 0, 400, 8}};
  Model model = toy_model();
  for (const uint32_t dim : {TSR_DIM_BATCH, TSR_DIM_SEQ, TSR_DIM_IN, TSR_DIM_OUT})
    model.segments[1].op.dims[dim] = 10;
  Program program = empty_program(model, mesh_);
  Action& product = add_action(program, TSR_ACTION_FORWARD, TSR_STREAM_COMPUTE, {});
  product.segment = 1;
  EXPECT_DOUBLE_EQ(Costs(rates_).seconds(program, product), 2 * 1e4 / 500);
}

TEST_F(CostsOf, CopiesAreByTheirMemories) {
  const uint32_t fetch = program_.device_stream(kFetchStream), file_in = program_.host_stream(kFileInStream);
  const Action in = copy(fetch, TSR_MEMORY_HOST, TSR_MEMORY_DEVICE);
  EXPECT_EQ(resource_of(program_, in), Resource::copy_in);
  EXPECT_EQ(seconds(in), 400 / 1e9);
  const Action out = copy(fetch, TSR_MEMORY_DEVICE, TSR_MEMORY_HOST);
  EXPECT_EQ(resource_of(program_, out), Resource::copy_out);
  EXPECT_EQ(seconds(out), 400 / 2e9);
  const Action read = copy(file_in, TSR_MEMORY_FILE, TSR_MEMORY_DEVICE);
  EXPECT_EQ(resource_of(program_, read), Resource::file_read);
  EXPECT_EQ(seconds(read), 0.125 + 4096 / 100.0);
  const Action written = copy(file_in, TSR_MEMORY_HOST, TSR_MEMORY_FILE);
  EXPECT_EQ(resource_of(program_, written), Resource::file_write);
  EXPECT_EQ(seconds(written), 0.125 + 4096 / 300.0);
  rates_.files.reset();
  expect_error([&] { seconds(read); }, {"give tessera bench rates an --offload-dir"});
}

TEST_F(CostsOf, WhatRunsTogetherSharesADiskAndCores) {
  const Costs costs(rates_);
  const auto running = [](std::initializer_list<Resource> all) {
    ResourceSet set;
    for (const Resource resource : all)
      set.add(resource);
    return set;
  };
  using enum Resource;
  EXPECT_EQ(costs.speed(compute, running({compute})), 1);
  EXPECT_EQ(costs.speed(compute, running({compute, copy_in})), 0.75);
  EXPECT_EQ(costs.speed(compute, running({compute, copy_in, file_read})), 0.75 * 0.9);
  EXPECT_EQ(costs.speed(copy_out, running({compute, copy_out})), 0.5);
  EXPECT_EQ(costs.speed(file_read, running({file_read})), 1);
  EXPECT_EQ(costs.speed(file_read, running({file_read, file_write})), 0.5);  // 200 of 100 + 300
  EXPECT_EQ(costs.speed(file_write, running({compute, file_read, file_write})), 0.5 * 0.8);
  EXPECT_EQ(costs.speed(link, running({compute, file_read})), 1);
  rates_.files->both_bytes_per_second = 500;  // both together faster than each alone
  EXPECT_EQ(costs.speed(file_read, running({file_read, file_write})), 1);
  rates_.collectives = {{"gloo", 2, {0.5, 0.25}, {{"all_reduce", 1024, 3}}}};
  EXPECT_EQ(costs.speed(compute, running({compute, link})), 0.5);
  EXPECT_EQ(costs.speed(link, running({compute, link})), 0.25);
  EXPECT_EQ(costs.speed(link, running({link})), 1);
}

TEST_F(CostsOf, CollectivesLieBetweenTheSizesThatWereMeasured) {
  const Mesh mesh({{"dp", 2}});
  Program program = empty_program(model_, mesh, {0});
  const uint64_t buffer = program.add_buffer({0, "b", TSR_BUFFER_SAVED, TSR_MEMORY_DEVICE, TSR_F32, false, 4096});
  const auto all_reduce = [&](uint64_t num_elements) {
    Action action = add_action(program, TSR_ACTION_ALL_REDUCE, TSR_STREAM_COMPUTE,
                               {{buffer, TSR_MODE_ADD, TSR_SLOT(TSR_ROLE_DESTINATION, 0), 0, num_elements}});
    action.group = program.group({0, {}});
    return action;
  };
  const auto seconds = [&](uint64_t num_elements) { return Costs(rates_).seconds(program, all_reduce(num_elements)); };
  expect_error([&] { seconds(8); }, {"no times of all_reduce between 2 ranks", "tessera bench comm --nproc 2"});
  rates_.collectives = {{"gloo", 2, {}, {{"all_reduce", 4000, 4}, {"all_reduce", 400, 1}, {"all_gather", 40, 9}}}};
  EXPECT_EQ(seconds(100), 1);
  EXPECT_EQ(seconds(10), 1);  // below the least: its latency
  EXPECT_EQ(seconds(1000), 4);
  EXPECT_DOUBLE_EQ(seconds(550), 2.5);
  EXPECT_EQ(seconds(2000), 8);
  Action with_workspace = all_reduce(100);
  with_workspace.bindings.push_back({buffer, 0, 4096, TSR_SLOT(TSR_ROLE_WORKSPACE, 0), TSR_MODE_WRITE});
  EXPECT_EQ(Costs(rates_).seconds(program, with_workspace), 1);
  rates_.collectives = {{"gloo", 2, {}, {{"reduce_scatter", 400, 1}, {"reduce_scatter", 4000, 4}}}};
  Action scatter = all_reduce(100);
  scatter.kind = TSR_ACTION_REDUCE_SCATTER;
  scatter.bindings.insert(scatter.bindings.begin(), {buffer, 0, 1000, TSR_SLOT(TSR_ROLE_SOURCE, 0), TSR_MODE_READ});
  EXPECT_EQ(Costs(rates_).seconds(program, scatter), 4);  // by the whole, not by the slice
}

TEST_F(CostsOf, MessagesInALargeGroupAreThoseBetweenTwoRanks) {
  const Mesh mesh({{"dp", 4}});
  Program program = empty_program(model_, mesh, {0});
  const uint64_t buffer = program.add_buffer({0, "b", TSR_BUFFER_SAVED, TSR_MEMORY_DEVICE, TSR_F32, false, 100});
  Action& send = add_action(program, TSR_ACTION_SEND, TSR_STREAM_COMPUTE, {read(buffer)});
  send.group = program.group({0, {}});
  send.peer = 1;
  rates_.collectives = {{"gloo", 2, {}, {{"send", 400, 7}}}};
  EXPECT_EQ(Costs(rates_).seconds(program, send), 7);
}

TEST(BoundOfAStep, IsWhatItsBusiestResourceTakes) {
  Prediction step;
  step.phases[static_cast<size_t>(MovePhase::forward)].out_seconds = 3;
  step.phases[static_cast<size_t>(MovePhase::backward)].out_seconds = 4;
  step.phases[static_cast<size_t>(MovePhase::backward)].in_seconds = 5;
  EXPECT_EQ(step.bound(), 3 + 5);
  step.micro_batches_overlap = true;
  EXPECT_EQ(step.bound(), 3 + 4);
  step.phases[static_cast<size_t>(MovePhase::forward)].link_seconds_by_stream[7] = 8;
  step.phases[static_cast<size_t>(MovePhase::backward)].link_seconds_by_stream[7] = 1;
  step.phases[static_cast<size_t>(MovePhase::update)].host_seconds = 2;
  EXPECT_EQ(step.bound(), 8 + 1 + 2);
}

}  // namespace
}  // namespace tessera::testing
