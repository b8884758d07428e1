#include "support/scripted_comm.h"

#include "tessera/communicator.hpp"

namespace tessera::testing {
namespace {

Script* current = nullptr;

class ScriptedCommunicator final : public Communicator {
 public:
  explicit ScriptedCommunicator(const tsr_comm_create_args& args)
      : name_(view(args.name)), device_(*args.device_interface) {}

  void submit(const tsr_collective& collective) override {
    current->sequences.push_back(collective.sequence);
    call(device_.host_function, collective.stream, &run, current);
    if (collective.dtype != TSR_I64 || collective.num_elements != TSR_SQUARES_WORDS) return;
    auto* arrivals = static_cast<int64_t*>(collective.recv) + TSR_WORD_ARRIVALS;
    call(device_.fill, collective.stream, arrivals, uint32_t{current->num_arrivals}, 1);  // its lowest byte
  }
  void check_async() override {}
  void abort() noexcept override {
    current->aborted.push_back(name_);
    current->abort();
  }

 private:
  static tsr_status run(void* self, tsr_error* err) noexcept {
    auto& script = *static_cast<Script*>(self);
    ++script.num_runs;
    return guard(err, "scripted", [&] { script.on_run(); });
  }

  const std::string name_;
  const tsr_device_interface& device_;
};

struct Plugin {
  static constexpr const char* kName = "scripted";
  static void caps(std::string_view, tsr_comm_caps& caps) {
    caps.collectives = caps.reduces = ~uint64_t{0};
    caps.dtypes = kAllDtypes;
    caps.num_dtypes = std::size(kAllDtypes);
  }
  static uint64_t describe(const tsr_collective&, int) { return 64; }
  static std::unique_ptr<Communicator> create(const tsr_comm_create_args& args) {
    return std::make_unique<ScriptedCommunicator>(args);
  }
};

constexpr tsr_communicator_interface kTable = communicator_table<Plugin>();

}  // namespace

void Script::wait_for_abort() {
  std::unique_lock lock(mutex_);
  aborted_.wait(lock, [&] { return is_aborted_; });
  throw Error(TSR_E_ABORTED, "the collective was aborted");
}

void Script::abort() {
  {
    const std::lock_guard lock(mutex_);
    is_aborted_ = true;
  }
  aborted_.notify_all();
}

const tsr_communicator_interface& scripted_communicator(Script& script) {
  current = &script;
  return kTable;
}

}  // namespace tessera::testing
