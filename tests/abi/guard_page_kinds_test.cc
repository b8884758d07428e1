// Devices and communicators read no byte of what the host hands them that is not there, and write none: each struct,
// array and text ends at a page that must not be touched, and is gone when the call has returned. A longer host's
// structs are read as this minor's, a shorter host's are refused.
#include <gtest/gtest.h>

#include <functional>

#include "support/comm_harness.h"
#include "support/guard_page.h"
#include "support/paths.h"
#include "support/plugin_loader.h"

namespace tessera::testing {
namespace {

constexpr uint32_t kLonger = 64;

/// The struct as hosts of this minor and of a later one make it.
template <class T>
void for_hosts(const T& value, const std::function<void(T*)>& use) {
  for (const uint32_t num_bytes : {uint32_t{sizeof value}, uint32_t{sizeof value} + kLonger})
    use(GuardedStruct<T>(value, num_bytes).get());
}

/// Those of hosts that lack a field or more; `use` must refuse each and say why.
template <class T>
void expect_refused(const T& value, const std::function<tsr_status(T*, tsr_error*)>& use) {
  for (uint32_t num_bytes = 8; num_bytes < sizeof value; num_bytes += 8) {
    tsr_error err{};
    const tsr_status status = use(GuardedStruct<T>(value, num_bytes).get(), &err);
    EXPECT_TRUE(status == TSR_E_INVALID_ARGUMENT || status == TSR_E_ABI) << num_bytes << " bytes: " << status;
    EXPECT_NE(std::string(err.message).find("struct_size"), std::string::npos) << err.message;
  }
}

template <class T>
std::string bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}
template <class T>
GuardedBytes guarded(const std::vector<T>& values) {
  return GuardedBytes(bytes_of(std::span<const T>(values)));
}
template <class T>
T* as(const GuardedBytes& bytes) {
  return reinterpret_cast<T*>(bytes.data());
}

// ---- devices --------------------------------------------------------------------------------------------------------

class DeviceGuardPage : public ::testing::Test {
 protected:
  DeviceGuardPage() {
    op_.struct_size = sizeof op_;
    op_.kind = TSR_OP_ADD_INTO;
    op_.dtype = op_.destination_dtype = TSR_F32;
    op_.dims[TSR_DIM_ELEMENTS] = 4;
  }

  tsr_device_open_args arguments() const {
    return {sizeof(tsr_device_open_args), 0, 1, 0, host_.get(), options_.data(), options_.size()};
  }
  tsr_device* open() {
    tsr_device* device = nullptr;
    for_hosts<tsr_device_open_args>(arguments(), [&](tsr_device_open_args* args) {
      api_.close(device);
      call(api_.open, args, &device);
    });
    return device;
  }

  MemoryKv store_;
  const GuardedStruct<tsr_host> host_{store_.host()};
  const std::vector<tsr_option_value> options_ = default_options("cpu-device");
  const tsr_device_interface& api_ = load_plugin<tsr_device_interface>("cpu-device", TSR_DEVICE_INTERFACE);
  tsr_op op_{};
};

TEST_F(DeviceGuardPage, OpenReadsNoMoreThanThereIs) {
  tsr_device* const device = open();
  expect_refused<tsr_device_open_args>(arguments(), [&](tsr_device_open_args* args, tsr_error* err) {
    tsr_device* none = nullptr;
    return api_.open(args, &none, err);
  });
  api_.close(device);
}

TEST_F(DeviceGuardPage, DescribeReadsAndWritesNoMoreThanThereIs) {
  const std::vector<tsr_slot_spec> expected = describe_op(api_, op_);
  for_hosts<tsr_op>(op_, [&](tsr_op* op) {
    const GuardedBytes slots(std::string(expected.size() * sizeof(tsr_slot_spec), '\0'));
    uint64_t num_slots = expected.size();
    call(api_.describe, op, as<tsr_slot_spec>(slots), &num_slots);
    EXPECT_EQ(std::string(slots.data(), expected.size() * sizeof(tsr_slot_spec)),
              bytes_of(std::span<const tsr_slot_spec>(expected)));
  });
  expect_refused<tsr_op>(op_, [&](tsr_op* op, tsr_error* err) {
    uint64_t num_slots = 0;
    return api_.describe(op, nullptr, &num_slots, err);
  });
}

TEST_F(DeviceGuardPage, KernelsKeepWhatTheyNeedAndReadNoMore) {
  tsr_device* const device = open();
  const std::vector<tsr_slot_spec> slots = describe_op(api_, op_);
  tsr_stream* stream = nullptr;
  call(api_.stream_create, device, tsr_str{GuardedBytes("compute").data() + 7, 0}, &stream);
  std::vector<float> values(4, 1), sums(4, 2);
  float expected = 2;
  for_hosts<tsr_op>(op_, [&](tsr_op* op) {
    tsr_kernel* kernel = nullptr;
    call(api_.prepare, device, op, as<const tsr_slot_spec>(guarded(slots)), slots.size(), &kernel);
    call(api_.launch, kernel, stream, as<void* const>(guarded<void*>({values.data(), sums.data()})), uint64_t{2});
    call(api_.stream_synchronize, stream, int64_t{10'000});
    EXPECT_EQ(sums, std::vector<float>(4, ++expected));
    api_.kernel_destroy(kernel);
  });
  expect_refused<tsr_op>(op_, [&](tsr_op* op, tsr_error* err) {
    tsr_kernel* kernel = nullptr;
    return api_.prepare(device, op, slots.data(), slots.size(), &kernel, err);
  });
  api_.stream_destroy(stream);
  api_.close(device);
}

// ---- communicators --------------------------------------------------------------------------------------------------

class CommunicatorGuardPage : public ::testing::TestWithParam<std::string> {
 protected:
  const tsr_communicator_interface& api_ =
      load_plugin<tsr_communicator_interface>(GetParam(), TSR_COMMUNICATOR_INTERFACE);
};

tsr_collective scatter(const uint64_t* counts, const void* send, void* recv) {
  tsr_collective c = make_collective(TSR_COLL_REDUCE_SCATTER, TSR_F32, 0, send, recv);
  c.struct_size = sizeof c;
  c.reduce = TSR_REDUCE_SUM;
  c.peer = -1;
  c.counts = counts;
  return c;
}

TEST_P(CommunicatorGuardPage, CapsFillsWhatTheHostHasRoomFor) {
  tsr_comm_caps all{};
  all.struct_size = sizeof all;
  call(api_.caps, str("cpu.queue"), &all);
  for (uint32_t num_bytes = 8; num_bytes <= sizeof all + kLonger; num_bytes += 8) {
    const GuardedStruct<tsr_comm_caps> caps({}, num_bytes);
    call(api_.caps, str("cpu.queue"), caps.get());
    tsr_comm_caps expected = all;
    expected.struct_size = num_bytes;
    const size_t num_known = std::min<size_t>(num_bytes, sizeof all);
    EXPECT_EQ(std::memcmp(caps.get(), &expected, num_known), 0) << num_bytes;
    const auto* const bytes = reinterpret_cast<const unsigned char*>(caps.get());
    EXPECT_EQ(std::count(bytes + num_known, bytes + num_bytes, 0xee), num_bytes - num_known) << num_bytes;
  }
}

TEST_P(CommunicatorGuardPage, DescribeReadsNoMoreThanThereIs) {
  const GuardedBytes counts = guarded<uint64_t>({3, 1});
  const tsr_collective c = scatter(as<uint64_t>(counts), nullptr, nullptr);
  uint64_t expected = 0, num_bytes = 0;
  call(api_.describe, &c, 2, &expected);
  for_hosts<tsr_collective>(c, [&](tsr_collective* given) {
    call(api_.describe, given, 2, &num_bytes);
    EXPECT_EQ(num_bytes, expected);
  });
  expect_refused<tsr_collective>(
      c, [&](tsr_collective* given, tsr_error* err) { return api_.describe(given, 2, &num_bytes, err); });
}

/// One rank of two: makes communicators and sums over them, with all that it is handed on guarded pages.
struct GuardedRank {
  CommRank& rank;
  tsr_host kv_host;
  const GuardedStruct<tsr_host> host{kv_host};
  const GuardedStruct<tsr_device_interface> device_table{rank.device_interface()};

  tsr_comm_create_args arguments(const GuardedBytes& name, const GuardedBytes& rendezvous,
                                 const GuardedBytes& world_ranks, uint64_t length) const {
    tsr_comm_create_args args{};
    args.struct_size = sizeof args;
    args.rank = rank.rank();
    args.size = rank.num_ranks();
    args.is_local = 1;
    args.name = {name.data(), length};
    args.rendezvous = {rendezvous.data(), length};
    args.world_ranks = as<const int32_t>(world_ranks);
    args.host = host.get();
    args.device_interface = device_table.get();
    args.device = rank.device();
    args.timeout_ms = 20'000;
    return args;
  }

  /// Names are of 200 bytes and not zero-terminated.
  tsr_comm* create(uint32_t more_bytes) const {
    constexpr size_t kLength = 200;
    const GuardedBytes name(std::string(kLength, 'n')), rendezvous(std::string(kLength, more_bytes ? 'l' : 'r'));
    const GuardedBytes world_ranks = guarded<int32_t>({0, 1});
    const GuardedStruct<tsr_comm_create_args> args(arguments(name, rendezvous, world_ranks, kLength),
                                                   sizeof(tsr_comm_create_args) + more_bytes);
    tsr_comm* comm = nullptr;
    call(rank.interface().create, args.get(), &comm);
    return comm;
  }

  void sum(tsr_comm* comm, uint32_t more_bytes, std::vector<float>& send, std::vector<float>& recv) const {
    const GuardedBytes counts = guarded<uint64_t>({3, 1}), label(std::string(200, 'l'));
    tsr_collective c = scatter(as<uint64_t>(counts), send.data(), recv.data());
    c.stream = rank.stream();
    c.label = {label.data(), 200};
    std::vector<std::byte> workspace;
    uint64_t num_bytes = 0;
    call(rank.interface().describe, &c, 2, &num_bytes);
    EXPECT_EQ(num_bytes, 0u) << "this test has none";
    call(rank.interface().submit, comm, GuardedStruct<tsr_collective>(c, sizeof c + more_bytes).get());
  }
};

TEST_P(CommunicatorGuardPage, CreateAndSubmitReadNoMoreThanThereIs) {
  MemoryKv store;
  run_ranks({GetParam(), 2}, [&](CommRank& rank) {
    const GuardedRank guarded_rank{rank, store.host()};
    for (const uint32_t more_bytes : {0u, kLonger}) {
      tsr_comm* const comm = guarded_rank.create(more_bytes);
      std::vector<float> send = {1, 2, 3, 4}, recv(rank.rank() == 0 ? 3 : 1);
      guarded_rank.sum(comm, more_bytes, send, recv);
      rank.synchronize();
      EXPECT_EQ(recv, rank.rank() == 0 ? (std::vector<float>{2, 4, 6}) : std::vector<float>{8});
      expect_refused<tsr_collective>(
          make_collective(TSR_COLL_BARRIER, 0, 0, nullptr, nullptr),
          [&](tsr_collective* c, tsr_error* err) { return rank.interface().submit(comm, c, err); });
      rank.interface().destroy(comm);
    }
  });
}

TEST_P(CommunicatorGuardPage, AShorterHostIsRefused) {
  MemoryKv store;
  run_ranks({GetParam(), 1}, [&](CommRank& rank) {
    const GuardedRank guarded_rank{rank, store.host()};
    const GuardedBytes text("dp"), world_ranks = guarded<int32_t>({0});
    expect_refused<tsr_comm_create_args>(guarded_rank.arguments(text, text, world_ranks, 2),
                                         [&](tsr_comm_create_args* args, tsr_error* err) {
                                           tsr_comm* comm = nullptr;
                                           return rank.interface().create(args, &comm, err);
                                         });
  });
}

std::vector<std::string> communicators() {
#ifdef TESSERA_HAS_GLOO
  return {"local-comm", "gloo-comm"};
#else
  return {"local-comm"};
#endif
}
INSTANTIATE_TEST_SUITE_P(All, CommunicatorGuardPage, ::testing::ValuesIn(communicators()),
                         [](const auto& test) { return test.param.substr(0, test.param.find('-')); });

}  // namespace
}  // namespace tessera::testing
