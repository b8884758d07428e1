// Ranks of a test as threads, each with its own device, streams, and a member of the group under test.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/memory_kv.h"
#include "support/patience.h"
#include "support/typed_buffer.h"
#include "tessera/communicator.h"
#include "tessera/error.hpp"

namespace tessera::testing {

struct CommSpec {
  std::string plugin;  ///< "gloo-comm", or with an option of text: "gloo-comm:direct=off"
  int num_ranks = 1;
  std::string name = "dp.test";
  int64_t timeout_ms = kPatienceMs;
  std::string device = "cpu-device";
  std::vector<int> device_indices = {};  ///< of each rank; empty: rank r has device r
};

class CommRank;

/// A communicator of one rank. Calls throw tessera::Error.
class Comm {
 public:
  Comm(CommRank& owner, tsr_comm* comm, int rank, int num_ranks);
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  tsr_comm* handle() const { return comm_; }
  int rank() const { return rank_; }
  int num_ranks() const { return num_ranks_; }

  /// Fills what is 0 in `collective`: struct_size, the stream (the rank's first), the sequence, the label; brings the
  /// workspace that describe asks for, which lives as long as this. One that will be refused needs none.
  void submit(tsr_collective collective, bool needs_workspace = true);
  void check_async();
  void abort();

 private:
  CommRank& owner_;
  tsr_comm* comm_;
  int rank_, num_ranks_;
  uint64_t sequence_ = 0;
  std::vector<void*> workspaces_;
};

/// Memory of a device that the host can touch too.
class HostMemory final : public std::pmr::memory_resource {
 public:
  HostMemory(const tsr_device_interface& interface, tsr_device* device) : interface_(interface), device_(device) {}

 private:
  void* do_allocate(size_t num_bytes, size_t alignment) override;
  void do_deallocate(void* pointer, size_t num_bytes, size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  const tsr_device_interface& interface_;
  tsr_device* const device_;
};

/// Buffers that its thread makes while it lives are memory that its device can touch.
class CommRank {
 public:
  CommRank(const CommSpec& spec, int rank, MemoryKv& store) : CommRank(spec, rank, store.host()) {}
  CommRank(const CommSpec& spec, int rank, const tsr_host& host);
  ~CommRank();
  CommRank(const CommRank&) = delete;
  CommRank& operator=(const CommRank&) = delete;

  int rank() const { return rank_; }
  int num_ranks() const { return spec_.num_ranks; }
  const tsr_communicator_interface& interface() const { return interface_; }
  const tsr_device_interface& device_interface() const { return device_interface_; }
  tsr_device* device() const { return device_; }
  const tsr_comm_caps& caps() const { return caps_; }
  std::span<const tsr_dtype> dtypes() const { return {caps_.dtypes, caps_.num_dtypes}; }
  /// Is the communicator's work that of a device's own streams? It cannot fail a stream then, keeps the device busy
  /// until all ranks have come, and what ranks submit is not compared.
  bool is_native() const { return view(device_interface_.stream_kind) != "cpu.queue"; }

  /// Joins the group `name` of all ranks (default: the spec's name and time-out). `cancel`: as the host's.
  std::unique_ptr<Comm> create(const std::string& name = "", int64_t timeout_ms = 0, const uint32_t* cancel = nullptr);
  /// The communicator made on the first call.
  Comm& comm();

  /// Streams are made on first use.
  tsr_stream* stream(size_t index = 0);
  /// Throws the stream's first error, or, where work cannot fail it, that of any communicator; and IN_PROGRESS when it
  /// is not done after `timeout_ms`.
  void synchronize(size_t stream_index = 0, int64_t timeout_ms = kPatienceMs);
  /// Queues `function` on a stream.
  void run_on_stream(std::function<void()> function, size_t stream_index = 0);

 private:
  friend class Comm;

  const CommSpec spec_;
  const int rank_;
  const tsr_communicator_interface& interface_;
  const tsr_device_interface& device_interface_;
  tsr_comm_caps caps_{};
  tsr_host host_;
  std::vector<int32_t> world_ranks_;
  tsr_device* device_ = nullptr;
  std::optional<HostMemory> memory_;
  std::optional<std::pmr::unsynchronized_pool_resource> pool_;
  std::optional<BufferMemory> buffer_memory_;
  std::vector<tsr_stream*> streams_;
  std::vector<Comm*> comms_;  // those that live
  std::unique_ptr<Comm> comm_;
  std::list<std::function<void()>> functions_;
};

/// Opens device `index` of that plugin. Throws what it reports.
tsr_device* open_device(const tsr_device_interface& interface, const std::string& name, int index,
                        const tsr_host* host);

/// Runs `body` once a rank, each in a thread of its own; what it throws is a failure of the test that names the rank.
void run_ranks(const CommSpec& spec, const std::function<void(CommRank&)>& body);

/// A collective with the fields that most tests give.
tsr_collective make_collective(uint32_t kind, tsr_dtype dtype, uint64_t num_elements, const void* send, void* recv,
                               uint32_t reduce = 0);

}  // namespace tessera::testing
