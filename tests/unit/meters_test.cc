// What a rank measures as it trains: memory, and what offload moves.
#include <gtest/gtest.h>

#include "offload/copies.h"
#include "storage/block_sums.h"
#include "support/nano_job.h"
#include "support/rank_by_hand.h"
#include "support/temp_folder.h"
#include "train/meters/memory_meter.h"
#include "train/meters/move_meter.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr uint64_t kElements = 64;
constexpr int64_t kBytes = 256, kFileBlock = kBlockBytes;
constexpr uint64_t kFileElements = 4 * kBlockBytes / sizeof(float);
constexpr uint64_t kTotalBytes = 1000;

class MetersTest : public ::testing::Test {
 protected:
  /// A step that evicts and fetches parts of a buffer.
  Program step(uint64_t num_evicted, uint64_t num_fetched) const {
    Program program = empty_program(model_, mesh_);
    const uint64_t value = persistent(program, "value", 4 * kElements),
                   away = persistent(program, "away", 4 * kElements, TSR_BUFFER_PLUGIN, TSR_F32, TSR_MEMORY_HOST);
    persistent(program, "file", kFileElements, TSR_BUFFER_PLUGIN, TSR_F32, TSR_MEMORY_FILE);
    if (num_evicted)
      add_action(program, TSR_ACTION_COPY, program.device_stream(kEvictStream),
                 {read(value).at(0, num_evicted), write(away).at(0, num_evicted)});
    if (num_fetched)
      add_action(program, TSR_ACTION_COPY, program.device_stream(kFetchStream),
                 {read(away).at(0, num_fetched), write(value).at(0, num_fetched)});
    return program;
  }

  const TempFolder folder_;
  const Model model_ = toy_model();
  const Mesh mesh_{{{"dp", 1}}};
  RankByHand rank_;
};

uint64_t used_bytes = 0;  // of the device below

tsr_status query(tsr_device*, uint64_t* total, uint64_t* used, tsr_error*) noexcept {
  *total = kTotalBytes;
  *used = used_bytes;
  return TSR_OK;
}

const void* get_extension(tsr_str id) noexcept {
  static constexpr tsr_device_memory_info kMemory{sizeof kMemory, 0, &query};
  return view(id) == TSR_DEVICE_MEMORY_INFO ? &kMemory : nullptr;
}

TEST_F(MetersTest, ThePeakOfADeviceIsTheMostThatWasMeasured) {
  rank_.device.get_extension = &get_extension;
  const auto runtime = rank_.make({step(kElements, 0)}, folder_.path());
  MemoryMeter meter(*runtime, 77);
  const std::vector<std::pair<int64_t, int64_t>> used_and_peak = {{300, 300}, {200, 300}, {400, 400}};
  for (const auto& [used, peak] : used_and_peak) {
    used_bytes = static_cast<uint64_t>(used);
    const MeasuredMemory measured = meter.measure();
    EXPECT_EQ(measured.now_bytes, used);
    EXPECT_EQ(measured.peak_bytes, peak);
    EXPECT_EQ(measured.before_bytes, 0) << "of a process";
    EXPECT_EQ(measured.total_bytes, int64_t{kTotalBytes});
  }
}

class MovesTest : public MetersTest {
 protected:
  MovesTest() { job_.plugins.offload.push_back(job_.plugins.cpu); }  // any plugin: none is called

  Job job_ = nano_job(1);
};

TEST_F(MovesTest, AStepMovesWhatItsVariantDoes) {
  const auto runtime = rank_.make({step(kElements, 0), step(2 * kElements, kElements)}, folder_.path());
  MoveMeter meter(job_, *runtime);
  for (int64_t number = 1; number <= 3; ++number) {
    StepMetrics line;
    line.step = number;
    line.step_ms = 500;
    meter.measure(line);
    EXPECT_EQ(line.evicted_bytes, number == 2 ? 2 * kBytes : kBytes) << number;
    EXPECT_EQ(line.fetched_bytes, number == 2 ? kBytes : 0) << number;
  }
  EXPECT_EQ(meter.in_run().planned.out_bytes, uint64_t{4 * kBytes});
  EXPECT_EQ(meter.in_run().planned.in_bytes, uint64_t{kBytes});
  EXPECT_EQ(meter.in_run().seconds, 1.5);
}

TEST_F(MovesTest, WhatReachesFilesIsCountedByDirection) {
  const auto runtime = rank_.make({step(kElements, 0)}, folder_.path());
  const Buffer& file = runtime->programs().first().buffers.back();
  ASSERT_EQ(file.memory, TSR_MEMORY_FILE);
  std::vector<std::byte> bytes(4 * kBlockBytes);
  runtime->write_state(file, 0, bytes);  // before the meter
  MoveMeter meter(job_, *runtime);
  const FileStore& files = *runtime->files();
  const int64_t busy_before = files.read_counts().busy_ns + files.write_counts().busy_ns;

  StepMetrics line;
  line.step = 1;
  runtime->write_state(file, 0, std::span(bytes).first(kBlockBytes));
  meter.measure(line);
  EXPECT_EQ(line.file_written_bytes, kFileBlock);
  EXPECT_EQ(line.file_read_bytes, 0);
  const int64_t busy_ns = files.read_counts().busy_ns + files.write_counts().busy_ns - busy_before;
  EXPECT_GT(busy_ns, 0);
  EXPECT_EQ(line.file_busy_ms, static_cast<double>(busy_ns) * 1e-6);

  line.step = 2;
  runtime->read_state(file, 0, std::span(bytes).first(3 * kBlockBytes));
  meter.measure(line);
  EXPECT_EQ(line.file_written_bytes, 0);
  EXPECT_EQ(line.file_read_bytes, 3 * kFileBlock);
  EXPECT_EQ(meter.in_run().written.num_bytes, kBlockBytes);
  EXPECT_EQ(meter.in_run().read.num_bytes, 3 * kBlockBytes);
}

}  // namespace
}  // namespace tessera::testing
