// A rank's device, memory, communicators and programs. The order of construction matters and is that of the members:
// device, arenas, then a barrier of all ranks, then communicators. A rank without enough memory fails before the
// barrier, where the others notice it at once; after it they would wait for it inside a communicator.
//
// Between programs the host writes inputs and scalars and reads accumulators on the compute stream. It waits before a
// run, so that other streams see what was written.

#include "exec/rank_runtime.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>

#include "base/concat.h"
#include "exec/half_values.h"
#include "exec/self_test/test_communicators.h"
#include "exec/self_test/test_device.h"
#include "guard/known_functions.h"
#include "program/program_text.h"
#include "program/range_set.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

/// Parameters are read in pieces of this many elements, so that no rank holds a copy of the model.
constexpr uint64_t kReadElements = 1 << 20;
constexpr uint64_t kZeroBytes = 4 << 20;
constexpr int64_t kCopyMs = 60'000;
constexpr int64_t kUnread = -1;                              // no count
constexpr std::array<double, 3> kNotClipped = {-1, -1, -1};  // no result of CLIP

std::map<uint32_t, Arena> make_arenas(const Device& device, const RankPrograms& programs) {
  std::map<uint32_t, Arena> arenas;
  for (const uint32_t memory : {TSR_MEMORY_DEVICE, TSR_MEMORY_HOST})
    if (const uint64_t num_bytes = programs.arena_bytes(memory))
      arenas.emplace(memory, Arena(device, memory, num_bytes));
  return arenas;
}

/// The buffer's elements that are not among `places`.
std::vector<std::pair<uint64_t, uint64_t>> ranges_without(const Buffer& buffer, std::span<const StatePlace> places) {
  RangeSet taken;
  for (const StatePlace& place : places)
    if (place.buffer == buffer.id) taken.add(place.offset, place.offset + place.num_elements);
  return taken.gaps(0, buffer.num_elements);
}

/// The CPU beside a device with memory of its own, if comm streams or streams of the host need it.
std::unique_ptr<Device> open_host_device(const RankSetup& setup, const RankPrograms& programs) {
  const bool is_needed = setup.stages_collectives || std::ranges::any_of(programs.all(), [](const Program* program) {
                           return std::ranges::count(program->streams, TSR_STREAM_KIND_HOST, &Stream::kind) > 0;
                         });
  return setup.host_device && is_needed ? std::make_unique<Device>(*setup.host_device) : nullptr;
}

/// Reserves the space, so that a full disk is found before the first step.
std::unique_ptr<FileStore> open_files(const RankSetup& setup, const RankPrograms& programs) {
  FileStoreOptions options = setup.files;
  options.num_bytes = programs.arena_bytes(TSR_MEMORY_FILE);
  return options.num_bytes ? std::make_unique<FileStore>(options, setup.log) : nullptr;
}

/// Before the barrier, as a rank that fails its own test must be noticed there.
void test_devices(const RankSetup& setup, const Device& device, const Device* host_device) {
  if (!setup.tests.devices) return;
  test_device(device, setup.communicators.start_timeout_ms);
  if (host_device) test_device(*host_device, setup.communicators.start_timeout_ms);
}

/// The barrier of all ranks before they create communicators; called in the constructor's list, between the two
/// members.
const CommunicatorSetup& wait_for_ranks(const RankSetup& setup, const Device& device, const Device* host_device) {
  test_devices(setup, device, host_device);
  setup.before_joining();
  return setup.communicators;
}

/// For each program of a rank the first that does the same in the same memory. Only variants of the step can be equal;
/// where steps are captured none counts as equal, since ranks are asked at the second run of each, and which of them
/// are equal may differ by rank.
std::vector<size_t> first_equal(const RankPrograms& programs, bool captures) {
  std::vector<size_t> first(programs.all().size());
  std::iota(first.begin(), first.end(), size_t{0});
  if (captures || programs.steps.size() < 2) return first;
  std::map<std::string, std::vector<size_t>> by_text;
  for (size_t i = 0; i < programs.steps.size(); ++i) {
    const std::string text = print_program(programs.steps[i], false);
    std::vector<size_t>& equal = by_text[text.substr(text.find('\n'))];  // without the number of the variant
    const auto found = std::ranges::find_if(
        equal, [&](size_t other) { return programs.memory[other].address == programs.memory[1 + i].address; });
    if (found != equal.end())
      first[1 + i] = *found;
    else
      equal.push_back(1 + i);
  }
  return first;
}

}  // namespace

RankRuntime::RankRuntime(const RankSetup& setup, RankPrograms programs)
    : setup_(setup),
      programs_(std::move(programs)),
      device_(setup.device),
      host_device_(open_host_device(setup, programs_)),
      arenas_(make_arenas(device_, programs_)),
      files_(open_files(setup, programs_)),
      communicators_(wait_for_ranks(setup, device_, host_device_.get()),
                     setup.stages_collectives ? *host_device_ : device_, programs_.all()),
      context_({device_, setup.stages_collectives ? *host_device_ : device_, host_device_ ? *host_device_ : device_},
               communicators_, setup_.strategies, arenas_, files_.get(), setup.debug, setup.graphs) {
  const auto all = programs_.all();
  if (setup.tests.communicators)
    test_communicators(context_, all, setup.tests.is_canonical, setup.communicators.start_timeout_ms);
  const std::vector<size_t> first = first_equal(programs_, context_.captures());
  for (size_t i = 0; i < all.size(); ++i)
    executables_.push_back(first[i] < i ? executables_[first[i]]
                                        : std::make_shared<Executable>(*all[i], programs_.memory[i], context_));
}

RankRuntime::~RankRuntime() = default;

std::optional<DeviceMemory> RankRuntime::device_memory() const {
  const auto* info = device_.table<tsr_device_memory_info>(TSR_DEVICE_MEMORY_INFO);
  if (!info) return std::nullopt;
  DeviceMemory memory;
  call(info->query, device_.handle(), &memory.total_bytes, &memory.used_bytes);
  if (memory.used_bytes > memory.total_bytes)
    throw Error(TSR_E_INTERNAL, concat(call_text(address_of(info->query)), " returned ", memory.used_bytes,
                                       " bytes in use of ", memory.total_bytes, "; use cannot exceed the whole"));
  return memory;
}

std::string RankRuntime::obstacle_to_graphs() const {
  for (const Program& step : programs_.steps)
    if (std::string obstacle = obstacle_to_capture(context_, step); !obstacle.empty()) return obstacle;
  return "";
}

// Persistent buffers have one address in all programs; this is from the plan of the first.
void* RankRuntime::pointer(const Buffer& buffer, uint64_t offset) const {
  return context_.pointer(buffer, programs_.first_memory(), offset);
}

void RankRuntime::wait() {
  synchronize(device_, compute_stream(), std::min(kCopyMs, setup_.communicators.start_timeout_ms));
}

// What rests in the host's memory or in files is read and written there, when no program runs.

void RankRuntime::zero(const Buffer& buffer, const ElementRange& range) {
  const uint64_t begin = range.begin, num_bytes = TSR_NUM_BYTES(buffer.dtype, range.num_elements());
  if (buffer.memory == TSR_MEMORY_FILE) {
    const std::vector<std::byte> zeros(has_used_files_ ? kZeroBytes : 0);  // what was never written is zero
    for (uint64_t done = 0; done < num_bytes && !zeros.empty(); done += zeros.size())
      write_range(*files_, file_offset(buffer, begin) + done,
                  std::span(zeros).first(std::min(kZeroBytes, num_bytes - done)), buffer.name);
  } else if (is_on_host(buffer))
    std::memset(pointer(buffer, begin), 0, num_bytes);
  else
    call(device_.api().fill, compute_stream(), pointer(buffer, begin), 0u, num_bytes);
}

void RankRuntime::write(const Buffer& buffer, uint64_t offset, const void* data, uint64_t num_bytes) {
  has_used_files_ |= buffer.memory == TSR_MEMORY_FILE;
  if (buffer.memory == TSR_MEMORY_FILE)
    write_range(*files_, file_offset(buffer, offset), {static_cast<const std::byte*>(data), num_bytes}, buffer.name);
  else if (is_on_host(buffer))
    std::memcpy(pointer(buffer, offset), data, num_bytes);
  else
    call(device_.api().copy, compute_stream(), pointer(buffer, offset), data, num_bytes);
}

void RankRuntime::fetch(const Buffer& buffer, uint64_t offset, void* data, uint64_t num_bytes) {
  if (buffer.memory == TSR_MEMORY_FILE)
    read_range(*files_, file_offset(buffer, offset), {static_cast<std::byte*>(data), num_bytes}, buffer.name);
  else if (is_on_host(buffer))
    std::memcpy(data, pointer(buffer, offset), num_bytes);
  else
    call(device_.api().copy, compute_stream(), data, pointer(buffer, offset), num_bytes);
}

void RankRuntime::read(const Buffer& buffer, uint64_t offset, void* data, uint64_t num_bytes) {
  fetch(buffer, offset, data, num_bytes);
  if (buffer.memory != TSR_MEMORY_FILE && !is_on_host(buffer)) {
    call(device_.api().host_function, compute_stream(), &Arrivals::arrive, &reads_);
    ++num_reads_;
  }
  wait();
  if (reads_.count.load(std::memory_order_acquire) < num_reads_)
    end_by_early_ok(device_, concat("what the host reads of ", buffer.name, " had not been copied"));
}

const Buffer& RankRuntime::scalar(uint32_t kind, std::string_view name) const {
  return programs_.first().buffer(find_buffer(programs_.first(), kind, name));
}

void RankRuntime::write_values(const Buffer& buffer, uint64_t offset, std::span<const float> values) {
  const bool is_float32 = buffer.dtype == TSR_F32;
  const std::vector<std::byte> narrowed = is_float32 ? std::vector<std::byte>() : narrow(values, buffer.dtype);
  const std::span<const std::byte> bytes = is_float32 ? std::as_bytes(values) : narrowed;
  write(buffer, offset, bytes.data(), bytes.size());
  wait();
}

std::span<float> RankRuntime::values_in_memory(const StatePlace& place) const {
  const Buffer& buffer = programs_.first().buffer(place.buffer);
  if (buffer.dtype != TSR_F32 || !is_on_host(buffer)) return {};
  return {static_cast<float*>(pointer(buffer, place.offset)), place.num_elements};
}

void RankRuntime::read_values(const Buffer& buffer, uint64_t offset, std::span<float> values) {
  if (buffer.dtype == TSR_F32) return read(buffer, offset, values.data(), values.size_bytes());
  std::vector<uint16_t> halves(values.size());
  read(buffer, offset, halves.data(), halves.size() * sizeof(uint16_t));
  std::ranges::copy(widen(halves, buffer.dtype), values.begin());
}

void RankRuntime::initialize(const ParameterSource& values, Progress* progress) {
  zero_state();
  const Program& program = programs_.first();
  std::vector<float> piece_values;
  for (const Home& home : program.homes) {
    if (progress) progress->at(static_cast<uint64_t>(&home - program.homes.data()), program.homes.size());
    const HomeRole& role = role_of_values(home);
    for (const tsr_piece& piece : home.pieces)
      for (uint64_t done = 0; done < piece.num_elements; done += kReadElements) {
        piece_values.resize(std::min(kReadElements, piece.num_elements - done));
        values.read(program.model->parameters[piece.parameter].name, piece.parameter_offset + done, piece_values);
        write_values(program.buffer(role.buffer), role.offset + piece.home_offset + done, piece_values);
      }
  }
  run_init();
}

void RankRuntime::zero_state(std::span<const StatePlace> but_for) {
  // Pads must be zero, and so must optimizer state and the step count of a run that begins.
  for (const Buffer& buffer : programs_.first().buffers)
    if (buffer.persistent)
      for (const auto& [begin, end] : ranges_without(buffer, but_for))
        zero(buffer, {begin, end});
}

void RankRuntime::run_init() {
  wait();
  has_used_files_ = true;
  executables_.front()->run(setup_.cancelled);
}

StateCopy& RankRuntime::reserve_copy(std::span<const StatePlace> places) {
  state_copy_ = std::make_unique<StateCopy>(context_, programs_.first(), programs_.first_memory(), places);
  for (const auto& executable : executables_)
    executable->call_before_writing(places, [this] { state_copy_->finish(); });
  return *state_copy_;
}

int64_t RankRuntime::optimizer_step() {
  int64_t step = 0;
  read(scalar(TSR_BUFFER_SCALAR, kOptimizerStep), 0, &step, sizeof step);
  return step;
}

void RankRuntime::set_optimizer_step(int64_t step) {
  write(scalar(TSR_BUFFER_SCALAR, kOptimizerStep), 0, &step, sizeof step);
  wait();
}

void RankRuntime::write_input(const Buffer& buffer, const InputValues& values) {
  const auto* floats = std::get_if<std::vector<float>>(&values);
  if (floats && buffer.dtype != TSR_F32) return write_values(buffer, 0, *floats);
  std::visit([&](const auto& elements) { write(buffer, 0, elements.data(), buffer.num_bytes()); }, values);
}

void RankRuntime::write_batches(std::span<const MicroBatch> micro_batches) {
  const Program& program = programs_.first();
  check_batches(program, micro_batches);
  for (const InputBuffer& input : program.inputs)
    write_input(program.buffer(input.buffer), input_values(input, micro_batches));
}

/// The losses come last, in place of numbers that they cannot be: once they are there, so is what was fetched before.
/// On a GPU that costs less than a host function, as in read().
Evaluation RankRuntime::read_sums() {
  Evaluation sums;
  if (find_buffer(programs_.first(), TSR_BUFFER_ACCUMULATOR, kCorrectCount)) {
    sums.num_correct = 0;
    fetch(scalar(TSR_BUFFER_ACCUMULATOR, kCorrectCount), 0, &*sums.num_correct, sizeof *sums.num_correct);
  }
  int64_t& num_not_finite = sums.losses.front();
  num_not_finite = kUnread;
  fetch(scalar(TSR_BUFFER_ACCUMULATOR, kLossAccumulator), 0, sums.losses.data(), sizeof sums.losses);
  wait();
  if (num_not_finite == kUnread) end_by_early_ok(device_, "the loss had not been copied to the host");
  return sums;
}

bool RankRuntime::scales_loss() const {
  return find_buffer(programs_.first(), TSR_BUFFER_SCALAR, kLossScale) != 0;
}

StepResult RankRuntime::run_step(uint64_t step, double learning_rate, double loss_scale,
                                 std::span<const MicroBatch> micro_batches, const StepRequests& requests,
                                 StepTimes* times) {
  write_batches(micro_batches);  // first: it may refuse them, and copies from this frame must not be on their way then
  const Buffer& squares = scalar(TSR_BUFFER_ACCUMULATOR, kSquaresAccumulator);
  RunWordValues words = run_words(requests);
  write(squares, kRunWordsBegin, words.data(), sizeof words);
  write(scalar(TSR_BUFFER_SCALAR, kLearningRate), 0, &learning_rate, sizeof learning_rate);
  if (scales_loss()) write(scalar(TSR_BUFFER_SCALAR, kLossScale), 0, &loss_scale, sizeof loss_scale);
  std::array<double, 3> clip = kNotClipped;
  write(scalar(TSR_BUFFER_SCALAR, kClipResult), 0, clip.data(), sizeof clip);
  wait();
  Executable& executable = step_executable(step);
  executable.run(setup_.cancelled, times);
  fetch(scalar(TSR_BUFFER_SCALAR, kClipResult), 0, clip.data(), sizeof clip);
  fetch(squares, kRunWordsBegin, words.data(), sizeof words);
  const Evaluation sums = read_sums();
  const void* const of_device = address_of(device_.api().launch);
  if (clip == kNotClipped)
    throw Error(TSR_E_INTERNAL, concat("step ", step + 1, ": ", plugin_text(of_device), " has not run ",
                                       executable.is_graph() ? "what the step's graph holds" : "the step",
                                       ", and reported no error: clip has left no result; use another --device",
                                       executable.is_graph() ? ", or --cuda-graph=off" : ""));
  const auto* const communicator = setup_.communicators.api;
  const StepRequests requested = summed_requests(words, programs_.steps[0].mesh->num_ranks(), step + 1,
                                                 communicator ? address_of(communicator->submit) : nullptr, of_device);
  return {sums.loss_sum(), clip[2], clip[1] != 0, executable.first_not_finite(), sums.num_correct, requested};
}

Evaluation RankRuntime::run_eval(std::span<const MicroBatch> micro_batches) {
  if (!programs_.eval)
    throw Error(TSR_E_FAILED_PRECONDITION, "cannot evaluate: the programs were compiled without an eval program");
  write_batches(micro_batches);
  wait();
  executables_.back()->run(setup_.cancelled);
  return read_sums();
}

std::optional<ParameterElement> RankRuntime::worst_element(const Home& home, const tsr_piece& piece) {
  const HomeRole& role = role_of_values(home);
  const Buffer& buffer = programs_.first().buffer(role.buffer);
  std::optional<ParameterElement> worst;
  std::vector<float> values;
  for (uint64_t done = 0; done < piece.num_elements; done += kReadElements) {
    values.resize(std::min(kReadElements, piece.num_elements - done));
    read_values(buffer, role.offset + piece.home_offset + done, values);
    const size_t at = worst_of(values);
    const ParameterElement found = {piece.parameter, piece.parameter_offset + done + at, values[at]};
    if (!worst || is_worse(found, *worst)) worst = found;
  }
  return worst;
}

std::optional<ParameterElement> RankRuntime::worst_parameter_element() {
  std::optional<ParameterElement> worst;
  for (const Home& home : programs_.first().homes)
    for (const tsr_piece& piece : home.pieces)
      if (const auto found = worst_element(home, piece); found && (!worst || is_worse(*found, *worst))) worst = found;
  return worst;
}

}  // namespace tessera::host
