// One rank at work: its device, memory, communicators and programs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "compile/compile.h"
#include "exec/communicators.h"
#include "exec/executable.h"
#include "exec/micro_batch.h"
#include "exec/parameter_element.h"
#include "exec/run_words.h"
#include "exec/state_copy.h"
#include "model/parameter_source.h"
#include "tessera/accumulator.hpp"
#include "tessera/ranges.hpp"

namespace tessera::host {

/// Which self-tests a rank begins with.
struct SelfTests {
  bool devices = false;
  bool communicators = false;  ///< they sum float32
  bool is_canonical = false;   ///< their sums are canonical
};

/// The components of a rank besides its programs. Tables and hosts are borrowed.
struct RankSetup {
  DeviceSetup device;
  std::optional<DeviceSetup> host_device;  ///< the CPU beside a device with memory of its own
  bool device_memory_is_host = false;      ///< between programs the host reads and writes it without the device
  bool stages_collectives = false;         ///< comm streams are the host device's
  FileStoreOptions files;                  ///< for buffers in files; num_bytes is set by the programs
  Log log = Log(LogLevel::off);            ///< warnings about the files
  CommunicatorSetup communicators;
  std::span<const StrategyOnAxis> strategies;
  DebugOptions debug;
  GraphOptions graphs;
  SelfTests tests;
  /// Called about once a second while a program runs; true stops the rank with an error.
  std::function<bool()> cancelled = [] { return false; };
  /// Called when device and memory are ready, before communicators are created: where a rank that has failed by then is
  /// noticed.
  std::function<void()> before_joining = [] {};
};

/// Bytes of a device with memory of its own.
struct DeviceMemory {
  uint64_t total_bytes = 0;
  uint64_t used_bytes = 0;  ///< by all processes, the driver and its libraries
};

struct StepResult {
  double loss_sum = 0;   ///< over all tokens of the step, all ranks
  double grad_norm = 0;  ///< before clipping, without the loss scale; not finite when a gradient is not
  bool updated = true;   ///< false: the step was skipped because a gradient was not finite
  /// With DebugOptions::check_memory: the first action that wrote a value that is not finite.
  std::optional<size_t> first_not_finite;
  std::optional<int64_t> num_correct;  ///< correct predictions of all ranks; classifiers only
  StepRequests requested;              ///< by all ranks: the same on each of them
};

struct Evaluation {
  Accumulator losses{};  ///< their exact sum over all tokens, all ranks
  std::optional<int64_t> num_correct;

  double loss_sum() const { return decode(losses); }
};

/// Owns device, arenas and communicators. All functions: [control-thread]; an Error from a run leaves the rank stopped.
class RankRuntime {
 public:
  /// Opens the device, allocates the arenas and joins all communicators. Takes ownership of `programs`.
  RankRuntime(const RankSetup& setup, RankPrograms programs);
  ~RankRuntime();

  /// Fills every persistent buffer: parameters from `values`, pads, optimizer state and the step count with zero; then
  /// runs `init`. `progress`, if any, counts homes.
  void initialize(const ParameterSource& values, Progress* progress = nullptr);

  /// What initialize() is made of, for state that was saved. First: zeroes everything persistent but these places,
  /// which are written next.
  void zero_state(std::span<const StatePlace> but_for = {});
  /// Last, once homes and the step count are written: runs `init`.
  void run_init();
  /// The bytes of elements of a persistent buffer, in whatever memory it is between programs. Return when done.
  void read_state(const Buffer& buffer, uint64_t offset, std::span<std::byte> out) {
    read(buffer, offset, out.data(), out.size());
  }
  void write_state(const Buffer& buffer, uint64_t offset, std::span<const std::byte> elements) {
    write(buffer, offset, elements.data(), elements.size());
    wait();
  }
  /// The same as values, of a buffer of float32 or 16 bits; to 16 bits they are rounded to nearest even.
  void read_values(const Buffer& buffer, uint64_t offset, std::span<float> values);
  void write_values(const Buffer& buffer, uint64_t offset, std::span<const float> values);
  /// Elements of a persistent buffer of float32 that the host may write itself between programs; empty for others.
  std::span<float> values_in_memory(const StatePlace& place) const;
  /// Takes host memory for copies of these places. A program that runs during a copy waits for it before it writes to
  /// them.
  StateCopy& reserve_copy(std::span<const StatePlace> places);
  /// Steps that updated the parameters, as the optimizer counts them.
  int64_t optimizer_step();
  void set_optimizer_step(int64_t step);

  /// Whether steps take a loss scale.
  bool scales_loss() const;
  /// One step on num_micro_batches micro-batches; `step` counts from 0 and selects the variant. `loss_scale` is used
  /// only if scales_loss(). Throws DATA_LOSS when the sum of squares is not that of all ranks: no parameter was updated
  /// then. With `times` the step runs without a graph, and they hold its actions' times.
  StepResult run_step(uint64_t step, double learning_rate, double loss_scale, std::span<const MicroBatch> micro_batches,
                      const StepRequests& requests = {}, StepTimes* times = nullptr);
  /// The loss on these micro-batches; no parameter changes. Throws FAILED_PRECONDITION without an eval program.
  Evaluation run_eval(std::span<const MicroBatch> micro_batches);

  /// The program of a step: run_step(step) runs the variant step mod their number. Variants whose programs are equal
  /// are one, unless steps are captured.
  Executable& step_executable(uint64_t step) { return *executables_[1 + step % programs_.steps.size()]; }

  /// The first element of this rank's pieces, in the order of the model, that is not finite; if all are finite, the one
  /// of the largest absolute value. Nothing when the rank holds no element.
  std::optional<ParameterElement> worst_parameter_element();

  const RankPrograms& programs() const { return programs_; }
  /// What is kept in files; null when no program has such a buffer.
  const FileStore* files() const { return files_.get(); }
  /// Planned bytes of device memory: the arena.
  uint64_t arena_bytes() const { return programs_.arena_bytes(TSR_MEMORY_DEVICE); }
  /// Nothing when the device does not report it, or has no memory of its own.
  std::optional<DeviceMemory> device_memory() const;
  /// Why steps do not run as a graph, as the end of a sentence; empty when they do from the second on.
  std::string obstacle_to_graphs() const;

 private:
  void* pointer(const Buffer& buffer, uint64_t offset = 0) const;
  bool is_on_host(const Buffer& buffer) const {
    return buffer.memory == TSR_MEMORY_HOST || (buffer.memory == TSR_MEMORY_DEVICE && setup_.device_memory_is_host);
  }
  uint64_t file_offset(const Buffer& buffer, uint64_t offset) const {
    return programs_.first_memory().address.at(buffer.id) + TSR_NUM_BYTES(buffer.dtype, offset);
  }
  /// Copies between the host's memory and a buffer; `data` is used until wait(). `read` waits.
  void zero(const Buffer& buffer, const ElementRange& range);
  void write(const Buffer& buffer, uint64_t offset, const void* data, uint64_t num_bytes);
  void fetch(const Buffer& buffer, uint64_t offset, void* data, uint64_t num_bytes);
  void read(const Buffer& buffer, uint64_t offset, void* data, uint64_t num_bytes);
  std::optional<ParameterElement> worst_element(const Home& home, const tsr_piece& piece);
  tsr_stream* compute_stream() { return context_.stream(programs_.first(), TSR_STREAM_COMPUTE).handle; }
  void wait();
  void write_input(const Buffer& buffer, const InputValues& values);
  void write_batches(std::span<const MicroBatch> micro_batches);
  /// Waits, also for what was fetched before.
  Evaluation read_sums();
  const Buffer& scalar(uint32_t kind, std::string_view name) const;

  RankSetup setup_;
  RankPrograms programs_;
  Device device_;
  std::unique_ptr<Device> host_device_;
  std::map<uint32_t, Arena> arenas_;
  std::unique_ptr<FileStore> files_;
  bool has_used_files_ = false;
  Communicators communicators_;
  Arrivals reads_ = {.compares = false};  // before the context, whose streams count it up
  uint64_t num_reads_ = 0;
  ExecutionContext context_;
  std::vector<std::shared_ptr<Executable>> executables_;  // init, the variants of the step, then eval, if any
  std::unique_ptr<StateCopy> state_copy_;                 // null: none was reserved
};

}  // namespace tessera::host
