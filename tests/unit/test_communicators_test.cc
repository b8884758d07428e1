// What the self-test of communicators takes beside the memory that is planned.
#include "exec/self_test/test_communicators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "support/memory_kv.h"
#include "support/plugin_loader.h"
#include "support/program_builder.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr uint64_t kWorkspaceBytes = 3 << 20;  // no other allocation has that size

tsr_status ask_for_workspace(const tsr_collective*, int32_t, uint64_t* num_bytes, tsr_error*) TSR_NOEXCEPT {
  *num_bytes = kWorkspaceBytes;
  return TSR_OK;
}

/// Functions of a device that count the workspaces of all ranks.
struct Workspaces {
  static inline const tsr_device_interface* device = nullptr;
  static inline std::mutex mutex;
  static inline std::set<void*> there;
  static inline size_t most = 0, num_all = 0;

  static tsr_status allocate(tsr_device* self, uint32_t memory, uint64_t num_bytes, void** pointer,
                             tsr_error* err) TSR_NOEXCEPT {
    const tsr_status status = device->allocate(self, memory, num_bytes, pointer, err);
    if (status != TSR_OK || num_bytes != kWorkspaceBytes) return status;
    const std::lock_guard lock(mutex);
    there.insert(*pointer);
    most = std::max(most, there.size());
    ++num_all;
    return status;
  }
  static void release(tsr_device* self, uint32_t memory, void* pointer) TSR_NOEXCEPT {
    {
      const std::lock_guard lock(mutex);
      there.erase(pointer);
    }
    device->release(self, memory, pointer);
  }
};

/// One rank of two, which sums a buffer over both.
void test_rank(int rank, const tsr_device_interface& counting, const tsr_communicator_interface& asking,
               const tsr_host& host) {
  const Mesh mesh({{"dp", 2}});
  const Model model = toy_model();
  Program program = empty_program(model, mesh, {rank});
  const uint64_t sum = transient(program, "sum", 64);
  Action& action = add_action(program, TSR_ACTION_ALL_REDUCE, program.comm_stream(0, "gradient"), {add(sum)});
  action.group = program.group({0, {}});
  action.reduce = TSR_REDUCE_SUM;
  const Device device({.api = &counting, .index = static_cast<uint32_t>(rank), .host = &host});
  CommunicatorSetup setup;
  setup.api = &asking;
  setup.host = &host;
  const Program* programs[] = {&program};
  Communicators comms(setup, device, programs);
  const std::map<uint32_t, Arena> arenas;
  ExecutionContext context({device, device, device}, comms, {}, arenas, nullptr, {}, {});
  test_communicators(context, programs, true, setup.start_timeout_ms);
}

TEST(SelfTestOfCommunicators, HasOneWorkspaceAtATime) {
  Workspaces::device = &load_plugin<tsr_device_interface>("cpu-device", TSR_DEVICE_INTERFACE);
  tsr_device_interface counting = *Workspaces::device;
  counting.allocate = Workspaces::allocate;
  counting.release = Workspaces::release;
  auto asking = load_plugin<tsr_communicator_interface>("local-comm", TSR_COMMUNICATOR_INTERFACE);
  asking.describe = ask_for_workspace;
  MemoryKv store;
  const tsr_host host = store.host();
  std::thread other([&] { test_rank(1, counting, asking, host); });
  test_rank(0, counting, asking, host);
  other.join();
  EXPECT_EQ(Workspaces::num_all, 4u) << "of two rounds of two ranks";
  EXPECT_LE(Workspaces::most, 2u);
  EXPECT_TRUE(Workspaces::there.empty());
}

}  // namespace
}  // namespace tessera::testing
