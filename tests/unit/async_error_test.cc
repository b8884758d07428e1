// A communicator whose work cannot fail its stream: the run asks it, also after the stream's end.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "exec/executable.h"
#include "exec/execution_context.h"
#include "support/expect_error.h"
#include "support/memory_kv.h"
#include "support/plugin_loader.h"
#include "tessera/error.hpp"

namespace tessera::testing {
using namespace host;
namespace {

/// A communicator that does nothing on the stream, which goes on, and then says that its second collective failed.
struct Silent {
  uint64_t sequence = 0;
};
Silent& of(tsr_comm* comm) {
  return *reinterpret_cast<Silent*>(comm);
}

tsr_communicator_interface silent_table() {
  tsr_communicator_interface table{};
  table.struct_size = sizeof table;
  table.create = [](const tsr_comm_create_args*, tsr_comm** comm, tsr_error*) noexcept -> tsr_status {
    *comm = reinterpret_cast<tsr_comm*>(new Silent);
    return TSR_OK;
  };
  table.submit = [](tsr_comm* comm, const tsr_collective* collective, tsr_error*) noexcept -> tsr_status {
    of(comm).sequence = collective->sequence;
    return TSR_OK;
  };
  table.async_error = [](tsr_comm* comm, tsr_error* err) noexcept -> tsr_status {
    if (of(comm).sequence == 0) return TSR_OK;
    fill_error(err, TSR_E_DEADLINE, "silent", "barrier #1 timed out", 1);
    return TSR_E_DEADLINE;
  };
  table.abort = [](tsr_comm* const*, uint64_t) noexcept {};
  table.destroy = [](tsr_comm* comm) noexcept { delete &of(comm); };
  return table;
}

Program program_with_a_barrier(const Mesh& mesh) {
  Program program;
  program.mesh = &mesh;
  program.coordinates = {0};
  Action barrier;
  barrier.kind = TSR_ACTION_BARRIER;
  barrier.stream = program.comm_stream(0, "test");
  barrier.group = program.group({0, {}});
  program.actions.push_back(barrier);
  return program;
}

// Of a communicator whose other ranks never come.
TEST(CreateOfACommunicator, IsCancelledWhenTheRunIsOver) {
  const Mesh mesh({{"dp", 2}});
  const Program program = program_with_a_barrier(mesh);
  MemoryKv store;
  const tsr_host host = store.host();
  const Device device({.api = &load_plugin<tsr_device_interface>("cpu-device", TSR_DEVICE_INTERFACE), .host = &host});
  tsr_communicator_interface table = silent_table();
  table.create = [](const tsr_comm_create_args* args, tsr_comm**, tsr_error* err) noexcept -> tsr_status {
    while (__atomic_load_n(args->cancel, __ATOMIC_ACQUIRE) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    fill_error(err, TSR_E_ABORTED, "silent", "create was cancelled");
    return TSR_E_ABORTED;
  };
  std::atomic<int> num_questions = 0;
  CommunicatorSetup setup;
  setup.api = &table;
  setup.host = &host;
  setup.cancelled = [&] { return ++num_questions > 2; };
  const Program* programs[] = {&program};
  expect_error([&] { Communicators(setup, device, programs); }, {"create was cancelled"});
  EXPECT_GT(num_questions, 2);
}

// Keys are never removed, so communicators that are made again, after an abort, must not find those of before.
TEST(Communicators, OfAnotherEpochHaveAnotherRendezvous) {
  const Mesh mesh({{"dp", 2}});
  const Program program = program_with_a_barrier(mesh);
  MemoryKv store;
  const tsr_host host = store.host();
  const Device device({.api = &load_plugin<tsr_device_interface>("cpu-device", TSR_DEVICE_INTERFACE), .host = &host});
  static std::string rendezvous;
  tsr_communicator_interface table = silent_table();
  table.create = [](const tsr_comm_create_args* args, tsr_comm** comm, tsr_error*) noexcept -> tsr_status {
    rendezvous = view(args->rendezvous);
    *comm = reinterpret_cast<tsr_comm*>(new Silent);
    return TSR_OK;
  };
  CommunicatorSetup setup;
  setup.api = &table;
  setup.host = &host;
  const Program* programs[] = {&program};
  const Communicators first(setup, device, programs);
  const std::string of_first = rendezvous;
  setup.epoch = 1;
  const Communicators second(setup, device, programs);  // beside those of the first
  EXPECT_EQ(of_first.substr(0, 7), "comm/0/");
  EXPECT_EQ(rendezvous, "comm/1/" + of_first.substr(7));
}

TEST(AsyncError, OfWorkThatHasEndedIsTheRunsError) {
  const Mesh mesh({{"dp", 2}});
  const Program program = program_with_a_barrier(mesh);
  MemoryKv store;
  const tsr_host host = store.host();
  const Device device({.api = &load_plugin<tsr_device_interface>("cpu-device", TSR_DEVICE_INTERFACE), .host = &host});
  CommunicatorSetup setup;
  const tsr_communicator_interface table = silent_table();
  setup.api = &table;
  setup.host = &host;
  const Program* programs[] = {&program};
  Communicators comms(setup, device, programs);
  const std::map<uint32_t, Arena> arenas;
  const MemoryPlan memory;
  ExecutionContext context({device, device, device}, comms, {}, arenas, nullptr, {}, {});
  Executable executable(program, memory, context);

  executable.run([] { return false; });
  expect_error([&] { executable.run([] { return false; }); }, {"barrier #1 timed out"});
}

}  // namespace
}  // namespace tessera::testing
