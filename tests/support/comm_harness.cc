#include "support/comm_harness.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "support/plugin_loader.h"

namespace tessera::testing {

Comm::Comm(CommRank& owner, tsr_comm* comm, int rank, int num_ranks)
    : owner_(owner), comm_(comm), rank_(rank), num_ranks_(num_ranks) {
  owner_.comms_.push_back(this);
}

Comm::~Comm() {
  std::erase(owner_.comms_, this);
  owner_.interface().destroy(comm_);
  for (void* workspace : workspaces_)
    owner_.device_interface().release(owner_.device(), TSR_MEMORY_DEVICE, workspace);
}

void Comm::submit(tsr_collective collective, bool needs_workspace) {
  static constexpr std::string_view kLabel = "gradient h.2";
  collective.struct_size = sizeof collective;
  if (!collective.stream) collective.stream = owner_.stream();
  if (!collective.label.ptr) collective.label = str(kLabel);
  collective.sequence = sequence_++;
  uint64_t num_bytes = 0;
  tsr_error err{};
  if (needs_workspace) {
    const tsr_status described = owner_.interface().describe(&collective, num_ranks_, &num_bytes, &err);
    if (described != TSR_E_UNSUPPORTED) check(described, err);  // what is not claimed, submit refuses too
  }
  if (num_bytes > 0) {
    call(owner_.device_interface().allocate, owner_.device(), TSR_MEMORY_DEVICE, num_bytes, &collective.workspace);
    workspaces_.push_back(collective.workspace);
  }
  call(owner_.interface().submit, comm_, &collective);
}

void Comm::check_async() {
  call(owner_.interface().async_error, comm_);
}
void Comm::abort() {
  owner_.interface().abort(&comm_, 1);
}

void* HostMemory::do_allocate(size_t num_bytes, size_t) {
  void* pointer = nullptr;
  call(interface_.allocate, device_, TSR_MEMORY_HOST, num_bytes, &pointer);
  return pointer;
}

void HostMemory::do_deallocate(void* pointer, size_t, size_t) {
  interface_.release(device_, TSR_MEMORY_HOST, pointer);
}

CommRank::CommRank(const CommSpec& spec, int rank, const tsr_host& host)
    : spec_(spec),
      rank_(rank),
      interface_(load_plugin<tsr_communicator_interface>(spec.plugin.substr(0, spec.plugin.find(':')),
                                                         TSR_COMMUNICATOR_INTERFACE)),
      device_interface_(load_plugin<tsr_device_interface>(spec.device, TSR_DEVICE_INTERFACE)),
      host_(host),
      world_ranks_(static_cast<size_t>(spec.num_ranks)) {
  std::iota(world_ranks_.begin(), world_ranks_.end(), 0);
  caps_.struct_size = sizeof caps_;
  call(interface_.caps, device_interface_.stream_kind, &caps_);
  const auto& indices = spec_.device_indices;
  device_ = open_device(device_interface_, spec_.device, indices.empty() ? rank_ : indices[static_cast<size_t>(rank_)],
                        &host_);
  if (!is_native()) return;
  memory_.emplace(device_interface_, device_);
  pool_.emplace(&*memory_);
  buffer_memory_.emplace(&*pool_);
}

CommRank::~CommRank() {
  for (tsr_stream* stream : streams_)
    device_interface_.stream_destroy(stream);  // waits for work in flight
  comm_.reset();
  buffer_memory_.reset();
  pool_.reset();
  device_interface_.close(device_);
}

std::unique_ptr<Comm> CommRank::create(const std::string& name, int64_t timeout_ms, const uint32_t* cancel) {
  const std::string& used_name = name.empty() ? spec_.name : name;
  const std::string rendezvous = "job/comm/" + used_name;
  tsr_comm_create_args args{};
  args.struct_size = sizeof args;
  args.rank = rank_;
  args.size = spec_.num_ranks;
  args.is_local = 1;
  args.name = str(used_name);
  args.rendezvous = str(rendezvous);
  args.world_ranks = world_ranks_.data();
  args.host = &host_;
  args.device_interface = &device_interface_;
  args.device = device_;
  args.timeout_ms = timeout_ms ? timeout_ms : spec_.timeout_ms;
  args.cancel = cancel;
  tsr_option_value option{};
  if (const size_t colon = spec_.plugin.find(':'); colon != std::string::npos) {
    const std::string_view text = std::string_view(spec_.plugin).substr(colon + 1);
    option.name = str(text.substr(0, text.find('=')));
    const std::string_view value = text.substr(text.find('=') + 1);
    option.s = str(value);
    option.i = value == "true" ? 1 : std::strtoll(value.data(), nullptr, 10);
    args.options = &option;
    args.num_options = 1;
  }
  tsr_comm* comm = nullptr;
  call(interface_.create, &args, &comm);
  return std::make_unique<Comm>(*this, comm, rank_, spec_.num_ranks);
}

Comm& CommRank::comm() {
  if (!comm_) comm_ = create();
  return *comm_;
}

tsr_stream* CommRank::stream(size_t index) {
  while (streams_.size() <= index) {
    tsr_stream* stream = nullptr;
    const std::string name = "comm." + std::to_string(streams_.size());
    call(device_interface_.stream_create, device_, str(name), &stream);
    streams_.push_back(stream);
  }
  return streams_[index];
}

void CommRank::synchronize(size_t stream_index, int64_t timeout_ms) {
  call(device_interface_.stream_synchronize, stream(stream_index), timeout_ms);
  if (!is_native()) return;
  for (Comm* comm : comms_)
    comm->check_async();
}

void CommRank::run_on_stream(std::function<void()> function, size_t stream_index) {
  auto& kept = functions_.emplace_back(std::move(function));
  const tsr_host_function run = [](void* user, tsr_error* err) noexcept {
    return guard(err, "test", *static_cast<std::function<void()>*>(user));
  };
  call(device_interface_.host_function, stream(stream_index), run, static_cast<void*>(&kept));
}

tsr_device* open_device(const tsr_device_interface& interface, const std::string& name, int index,
                        const tsr_host* host) {
  const std::vector<tsr_option_value> options = default_options(name);
  tsr_device_open_args args{};
  args.struct_size = sizeof args;
  args.index = static_cast<uint32_t>(index);
  args.num_threads = 1;
  args.host = host;
  args.options = options.data();
  args.num_options = options.size();
  tsr_device* device = nullptr;
  call(interface.open, &args, &device);
  return device;
}

void run_ranks(const CommSpec& spec, const std::function<void(CommRank&)>& body) {
  MemoryKv store;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < spec.num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        CommRank self(spec, rank, store);
        body(self);
      } catch (const std::exception& error) {
        ADD_FAILURE() << spec.plugin << " rank " << rank << " of " << spec.num_ranks << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
}

tsr_collective make_collective(uint32_t kind, tsr_dtype dtype, uint64_t num_elements, const void* send, void* recv,
                               uint32_t reduce) {
  tsr_collective collective{};
  collective.struct_size = sizeof collective;
  collective.kind = kind;
  collective.reduce = reduce;
  collective.dtype = dtype;
  collective.num_elements = num_elements;
  collective.send = send;
  collective.recv = recv;
  return collective;
}

}  // namespace tessera::testing
